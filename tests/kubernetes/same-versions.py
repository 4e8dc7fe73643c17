#!/usr/bin/env python3
"""Pins the dependencies of the tests' Go modules to those of one Kubernetes version, so that shared packages are compiled once:
same-versions.py v1.36.3 cert-manager cluster-inventory helm informer konnectivity kubeconfig

Run it again when the default version or one of the modules changes. The programs then differ from their releases in the
versions of dependencies. Leave out modules that do not compile with these versions. The test bed compiles all with the flags
of the default version (tests/testbed/src/programs.rs)."""

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
REASON = "// The versions of Kubernetes {}, to compile once what both use: tests/kubernetes/same-versions.py"
ENVIRONMENT = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


def go(folder, *arguments):
    return subprocess.run(["go", *arguments], cwd=folder, env=ENVIRONMENT, check=True, text=True, stdout=subprocess.PIPE).stdout


def versions(folder):
    """The modules whose packages are compiled, and the version of each."""
    version = "{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}"
    listed = go(folder, "list", "-e", "-mod=mod", "-tags=tools,remove_all_sd", "-deps", "-f", version, ".")
    return dict(line.split() for line in listed.splitlines() if len(line.split()) == 2)


def take(folder, kubernetes, wanted):
    text = (folder / "go.mod").read_text()
    text = re.sub(r"\n// The versions of Kubernetes [^\n]*\nreplace \(.*?\n\)\n", "", text, flags=re.DOTALL)
    (folder / "go.mod").write_text(text)
    replaced = [
        f"\t{path} => {path} {wanted[path]}\n"
        # Include modules already required in this version: an earlier run may have added the requirement.
        for path in sorted(versions(folder))
        if path in wanted
    ]
    block = f"\n{REASON.format(kubernetes)}\nreplace (\n{''.join(replaced)})\n"
    (folder / "go.mod").write_text(text + block)
    go(folder, "mod", "tidy")


if __name__ == "__main__":
    kubernetes, *names = sys.argv[1:] or sys.exit(__doc__)
    wanted = versions(TESTS / "kubernetes" / kubernetes)
    for name in names:
        take(TESTS / name, kubernetes, wanted)
