# Every command of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export PATH := $(CURDIR)/target/tools/bin:$(PATH):/usr/sbin
# A test compares with its snapshots; whoever means to change them says INSTA_UPDATE=new.
export INSTA_UPDATE ?= no
TESTBED := target/debug/testbed
PLATFORM := $(shell uname -m)-unknown-linux-gnu
PROFILE ?= release
PROGRAM := target/$(PLATFORM)/$(PROFILE:dev=debug)/mc-sidecar
# Debian's compilers for other processors: empty for this machine's own.
CROSS := $(filter-out $(shell uname -m)-linux-gnu-,$(firstword $(subst -, ,$(PLATFORM)))-linux-gnu-)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what a bare Debian or Ubuntu lacks (says what)
	@tests/setup.sh

.PHONY: demo
demo: ## Bring up a host and two members and show everything, with a shell at the end
	@tests/demo.sh

.PHONY: test
test: ## Lint, unit tests, a little fuzzing, and each promise once on a real Kubernetes (docs/CONTRIBUTING.md)
	@tests/test.sh

.PHONY: test-all
test-all: ## All of it: also every version, client and hub, the image in pods, upstream's tests, crowds, attacks and soaks
	@tests/test.sh --all

.PHONY: lint
lint: ## Format, clippy (of the plugin also for macOS and Windows), dependencies, generated files
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet
	tests/other-systems.sh
	cargo deny --log-level error check bans licenses sources
	cargo build-all --quiet --bins
	tests/cli-reference.sh | diff -u docs/reference/cli.md -
	for picture in path quickstart quickstart-session quickstart-explain; do for theme in light dark; do \
		tests/diagrams.py $$picture $$theme | diff -u docs/images/$$picture-$$theme.svg -; \
	done; done
	for theme in light dark; do tests/recording.py svg $$theme | diff -u docs/images/recording-$$theme.svg -; done
	for table in requests queries; do \
		tests/request-info/generate.sh $$table | diff -u tests/request-info/$$table.tsv -; \
	done

.PHONY: unit
unit: ## Unit tests (TEST=TEXT: those with this text in their name)
	cargo test-all --lib --bins $(TEST)
	cargo test-all --test cli --test krew --test chart_files --test rights --test closed_pipe $(TEST)

.PHONY: e2e
e2e: kubernetes ## End-to-end tests on a real Kubernetes: each promise once (TEST=TEXT: those with this text in their name)
	@tests/e2e.sh $(TEST)

.PHONY: e2e-all
e2e-all: everything ## All end-to-end tests (TEST=TEXT: those with this text in their name)
	@tests/e2e.sh --all $(TEST)

.PHONY: credentials
credentials: everything ## The end-to-end tests with everything logged, and a search of the sidecar's output for credentials: timed tests may fail, the search must not
	@RUST_LOG=trace tests/e2e.sh --all

.PHONY: conformance
conformance: kubernetes ## Upstream's own tests of kubectl through the proxy (FOCUS=EXPRESSION: only some; BY_AGENT=yes: through an agent too; BY_PLUGIN=yes: by the plugin in the place of kubectl)
	@tests/conformance.sh $(if $(FOCUS),--focus '$(FOCUS)') $(if $(BY_AGENT),--by-agent) $(if $(BY_PLUGIN),--by-plugin)

.PHONY: fuzz
fuzz: ## Fuzz for long: each target for FUZZ_SECONDS (3600)
	FUZZ_SECONDS=$${FUZZ_SECONDS:-3600} FUZZ_PROFILE=fuzz tests/fuzz.sh

# What decides who a caller is, what a member is told of them, and what they may do.
MUTATED := sidecar/src/identity/**/*.rs $(foreach module,cutoff headers limits offer protocol query request_info unescape upgrade, \
	sidecar/src/request/$(module).rs sidecar/src/request/$(module)/**/*.rs) sidecar/src/upstream/prepared.rs sidecar/api/src/access.rs sidecar/api/src/access/**/*.rs

.PHONY: mutants
mutants: ## Change the code of identity, rights and limits in small ways, and see its unit tests fail: hours (FILES=sidecar/src/request/headers.rs: only there)
	@tests/setup.sh --mutants
	cargo mutants --jobs 1 $(foreach glob,$(or $(FILES),$(MUTATED)),--file '$(glob)')

.PHONY: soak
soak: kubernetes ## SOAK_REQUESTS (1,000,000) mixed requests and SOAK_TUNNEL_MIB (10,240) through tunnels, with faults; ENDURANCE_SECONDS (1,800) of restarts, SOAK_HOSTILE_SECONDS (600) among hostile clients
	$(MAKE) program
	cargo test-all --test e2e --no-run
	SOAK_REQUESTS=$${SOAK_REQUESTS:-1000000} SOAK_TUNNEL_MIB=$${SOAK_TUNNEL_MIB:-10240} \
		ENDURANCE_SECONDS=$${ENDURANCE_SECONDS:-1800} ENDURANCE_RATE=$${ENDURANCE_RATE:-200} \
		SOAK_HOSTILE_SECONDS=$${SOAK_HOSTILE_SECONDS:-600} SOAK_HOSTILE_SCALE=$${SOAK_HOSTILE_SCALE:-5} \
		$(TESTBED) run --members 2 --node m1 --sidecar $(PROGRAM) -- \
		cargo test-all --offline --test e2e -- --nocapture --test-threads 1 soak::

# The sidecar is a copy, as every installation is one: a file that the linker wrote is slower (docs/dev/benchmarks.md).
.PHONY: bench
bench: ## Measure against nginx and the member itself; see docs/dev/benchmarks.md (BENCH=--quick: only try it)
	@tests/setup.sh --bench
	cargo build-all --bins
	cargo build --release --package kubectl-mc
	$(MAKE) program
	cargo build --release --package kubectl-mc-api --examples
	mkdir -p target/bench && cp $(PROGRAM) target/bench/mc-sidecar
	TESTBED_OPTIMIZED=yes $(TESTBED) run --members 2 --node m1 --sidecar target/bench/mc-sidecar -- target/debug/bench $(BENCH)

.PHONY: kubernetes
kubernetes: ## Build the real Kubernetes of the tests (minutes once, then nothing)
	cargo build-all --bins
	$(TESTBED) build

.PHONY: everything
everything: ## Build whatever the tests of `make test-all` run on (20 minutes of two cores once, then nothing)
	cargo build-all --bins
	$(TESTBED) build --everything

# A target that is named makes the flags those of the program alone, and not of what runs while it is built. All relocations
# are read at a start, so packed they are memory saved; a linker that cannot says so and goes on. Where crates lie on the
# machine is not told in the program.
PROGRAM_FLAGS := -C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs \
	--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo $(if $(CROSS),-C linker=$(CROSS)gcc)

.PHONY: program
program: ## The sidecar as it is in the image: one static program (PLATFORM=aarch64-unknown-linux-gnu: for another processor)
	$(if $(CROSS),rustup target add $(PLATFORM))
	GIT_COMMIT="$$(git rev-parse --short=12 HEAD 2>/dev/null)" RUSTFLAGS="$(PROGRAM_FLAGS)" cargo build --profile $(PROFILE) --locked --package sidecar --target $(PLATFORM) \
		$(if $(MESSAGES),--message-format $(MESSAGES))

# Static too, and by musl: glibc's would load the machine's own libraries to look up names. Debian's compilers for musl
# are its ordinary ones with other headers.
PLUGIN_PLATFORM := $(PLATFORM:-gnu=-musl)
MUSL := $(firstword $(subst -, ,$(PLATFORM)))-linux-musl
PLUGIN_FLAGS := --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo $(if $(CROSS),-C linker=$(CROSS)gcc)

.PHONY: plugin
plugin: ## The plugin as it is released: one static program (PLATFORM=aarch64-unknown-linux-gnu: for another processor)
	rustup target add $(PLUGIN_PLATFORM)
	CC_$(subst -,_,$(PLUGIN_PLATFORM))="$(CROSS)gcc -specs /usr/lib/$(MUSL)/musl-gcc.specs" RUSTFLAGS="$(PLUGIN_FLAGS)" \
		cargo build --profile $(PROFILE) --locked --package kubectl-mc --target $(PLUGIN_PLATFORM)

.PHONY: image
image: ## The sidecar's image IMAGE=NAME (PLATFORMS=linux/amd64,linux/arm64: for both; PUSH=yes, ARCHIVE=FILE: where to)
	@test -n "$(IMAGE)" || { echo "IMAGE=NAME is needed" >&2; exit 2; }
	@sidecar/image/build.sh $(IMAGE)

.PHONY: release
release: ## All files of a release in target/dist, from a clean checkout; IMAGE=NAME: where the image will be published (PLATFORMS)
	@test -n "$(IMAGE)" || { echo "IMAGE=NAME is needed" >&2; exit 2; }
	@tests/setup.sh --release
	@krew/release.sh $(IMAGE)

.PHONY: release-test
release-test: ## Install the plugin of `make release` by krew itself (DIST: another folder than target/dist)
	RELEASE_DIST="$(abspath $(or $(DIST),target/dist))" cargo test-all --test krew_install -- --ignored of_a_release

.PHONY: recording
recording: kubernetes ## Record the terminal of README.md in a test bed: docs/images/recording.cast and its pictures
	$(TESTBED) run --members 3 --node m1 --node m2 --node m3 --sidecar target/debug/mc-sidecar -- tests/recording.py record
	tests/recording.py --write

.PHONY: image-test
image-test: ## Look into the image, and run its programs (PLATFORMS=linux/amd64,linux/arm64: both, arm64 by qemu)
	@tests/setup.sh $(if $(findstring arm64,$(PLATFORMS)),--arm64)
	@ARCHIVE=target/image/mc-sidecar.tar BUILDER=buildah sidecar/image/build.sh testbed.local/mc-sidecar:1
	cargo test-all --test image -- $(if $(filter dev,$(PROFILE)),$(NOT_OF_A_DEBUG_BUILD))

# It is large, and its C tells where it lay.
NOT_OF_A_DEBUG_BUILD := --skip compressed_image_stays_below_the_size_limit --skip program_contains_no_paths_of_the_build_machine

.PHONY: clean
clean: ## Take down test beds that were left behind and remove what was built
	if [ -x $(TESTBED) ]; then $(TESTBED) down; fi
	cargo clean
	@echo "Go's caches and the installed packages are left; go clean -cache -modcache empties the caches."
