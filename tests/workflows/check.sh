#!/usr/bin/env bash
# First checks that actionlint, which runs shellcheck on scripts, and zizmor refuse the workflows in broken/, and then checks
# .github with both. Needs no network once the tools are in target/tools. The files next to this script pin them.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/workflows tools=$PWD/target/tools
mkdir -p "$tools/bin"

(cd $here && go build -o "$tools/bin/actionlint" github.com/rhysd/actionlint/cmd/actionlint)
stamp=$(sha256sum <$here/requirements.txt)
if [ "$(cat "$tools/workflows/.stamp" 2>/dev/null)" != "$stamp" ]; then
    echo "workflows: installing zizmor and shellcheck" >&2
    rm -rf "$tools/workflows"
    python3 -m venv "$tools/workflows"
    "$tools/workflows/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
        --requirement $here/requirements.txt
    echo "$stamp" >"$tools/workflows/.stamp"
fi

actionlint() { "$tools/bin/actionlint" -pyflakes= -shellcheck "$tools/workflows/bin/shellcheck" "$@"; }
zizmor() { "$tools/workflows/bin/zizmor" --offline --no-config --no-progress --quiet --strict-collection --persona auditor "$@"; }

# The linters must find each fault. Otherwise their silence would mean nothing.
refuses() { # LINTER RULE
    if said=$("$1" $here/broken/"$2".yml 2>&1) || [[ $said != *"$2"* ]]; then
        echo "workflows: $1 accepts $here/broken/$2.yml: $said" >&2
        exit 1
    fi
}
for rule in expression shellcheck; do refuses actionlint $rule; done
for rule in artipacked excessive-permissions template-injection unpinned-uses; do refuses zizmor $rule; done

actionlint .github/workflows/*.yml
zizmor .github
