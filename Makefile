# All commands of the project; `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export PATH := $(CURDIR)/target/tools/bin:$(PATH):/usr/sbin
# Tests only compare snapshots. INSTA_UPDATE=new writes changed ones for review.
export INSTA_UPDATE ?= no
TESTBED := target/debug/testbed
PLATFORM := $(shell uname -m)-unknown-linux-gnu
PROFILE ?= release
PROGRAM := target/$(PLATFORM)/$(PROFILE:dev=debug)/mc-sidecar
# Prefix of Debian's cross compiler; empty for this machine's own processor.
CROSS := $(filter-out $(shell uname -m)-linux-gnu-,$(firstword $(subst -, ,$(PLATFORM)))-linux-gnu-)

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install missing Debian packages, cargo-deny and mdBook, and name them
	@tests/setup.sh

.PHONY: demo
demo: ## Start a host and two members, run the commands with their output, and open a shell
	@tests/demo.sh

.PHONY: test
test: ## Lint, unit tests, short fuzzing, and each promise once on a real Kubernetes (docs/CONTRIBUTING.md)
	@tests/test.sh

.PHONY: test-all
test-all: ## All tests: adds other versions, clients and hubs, the image in pods, upstream's tests, attacks and soaks
	@tests/test.sh --all

.PHONY: lint
lint: ## Check format, clippy (the plugin also for macOS and Windows), documentation and its site, dependencies, workflows and generated files
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet
	tests/other-systems.sh
	cargo deny --log-level error check bans licenses sources
	tests/workflows/check.sh
	tests/site/build.sh
	cargo build-all --quiet --bins
	tests/cli-reference.sh | diff -u docs/reference/cli.md -
	for picture in path quickstart quickstart-session quickstart-explain; do for theme in light dark; do \
		tests/diagrams.py $$picture $$theme | diff -u docs/images/$$picture-$$theme.svg -; \
	done; done
	for theme in light dark; do tests/recording.py svg $$theme | diff -u docs/images/recording-$$theme.svg -; done
	for table in requests queries; do \
		tests/request-info/generate.sh $$table | diff -u tests/request-info/$$table.tsv -; \
	done
	tests/fleet-bodies/generate.sh | diff -u tests/fleet-bodies/bodies.tsv -

.PHONY: unit
unit: ## Run the unit tests (TEST=TEXT: those with this text in their name)
	cargo test-all --lib --bins $(TEST)
	cargo test-all --test cli --test agent_trust --test krew --test krew_release --test chart_files --test crd --test rights --test closed_pipe $(TEST)

.PHONY: e2e
e2e: kubernetes ## Run the end-to-end tests of `make test` (TEST=TEXT: those with this text in their name)
	@tests/e2e.sh $(TEST)

.PHONY: e2e-all
e2e-all: everything ## Run all end-to-end tests (TEST=TEXT: those with this text in their name)
	@tests/e2e.sh --all $(TEST)

.PHONY: credentials
credentials: everything ## Run all end-to-end tests with RUST_LOG=trace and search the sidecar's output for credentials; tests of timing may fail
	@RUST_LOG=trace tests/e2e.sh --all

.PHONY: conformance
conformance: kubernetes ## Run Kubernetes' own kubectl tests through the proxy (FOCUS=REGEX: some; BY_AGENT=yes: also through an agent; BY_PLUGIN=yes: with the plugin instead of kubectl)
	@tests/conformance.sh $(if $(FOCUS),--focus '$(FOCUS)') $(if $(BY_AGENT),--by-agent) $(if $(BY_PLUGIN),--by-plugin)

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZ_SECONDS (3600)
	FUZZ_SECONDS=$${FUZZ_SECONDS:-3600} FUZZ_PROFILE=fuzz tests/fuzz.sh

# Code that decides the caller's identity, the headers sent to the member, and the caller's rights.
MUTATED := sidecar/src/identity/**/*.rs $(foreach module,head/headers head/offer head/protocol head/query head/request_info head/unescape \
	limits/cutoff limits/in_flight request/upgrade, sidecar/src/$(module).rs sidecar/src/$(module)/**/*.rs) sidecar/src/outbound/upstream/prepared.rs sidecar/api/src/access.rs sidecar/api/src/access/**/*.rs \
	sidecar/api/src/fleet/**/*.rs sidecar/src/fleet/bodies.rs sidecar/src/fleet/bodies/**/*.rs sidecar/src/fleet/protobuf.rs sidecar/src/fleet/protobuf/**/*.rs

.PHONY: mutants
mutants: ## Run cargo-mutants on the code of identity, rights and limits; takes hours (FILES=sidecar/src/head/headers.rs: one file)
	@tests/setup.sh --mutants
	cargo mutants --jobs 1 $(foreach glob,$(or $(FILES),$(MUTATED)),--file '$(glob)')

.PHONY: soak
soak: kubernetes ## Run long tests: SOAK_REQUESTS (1,000,000) with faults, SOAK_TUNNEL_MIB (10,240), ENDURANCE_SECONDS (1,800) with restarts, SOAK_HOSTILE_SECONDS (600) under attack, PAUSE_SECONDS (1,800) without reading
	$(MAKE) program
	cargo test-all --test e2e --no-run
	SOAK_REQUESTS=$${SOAK_REQUESTS:-1000000} SOAK_TUNNEL_MIB=$${SOAK_TUNNEL_MIB:-10240} \
		ENDURANCE_SECONDS=$${ENDURANCE_SECONDS:-1800} ENDURANCE_RATE=$${ENDURANCE_RATE:-200} \
		SOAK_HOSTILE_SECONDS=$${SOAK_HOSTILE_SECONDS:-600} SOAK_HOSTILE_SCALE=$${SOAK_HOSTILE_SCALE:-5} \
		PAUSE_SECONDS=$${PAUSE_SECONDS:-1800} \
		$(TESTBED) run --members 2 --node m1 --sidecar $(PROGRAM) -- bash -euo pipefail -c ' \
			cargo test-all --offline --test e2e -- --test-threads 3 fault_36_paused; \
			cargo test-all --offline --test e2e -- --nocapture --test-threads 1 soak::'

# Measure a copy of the sidecar, as installations run it: the file that the linker writes is slower (docs/dev/benchmarks.md).
.PHONY: bench
bench: ## Compare with nginx and with direct access to the member; see docs/dev/benchmarks.md (BENCH=--quick: a short trial)
	@tests/setup.sh --bench
	cargo build-all --bins
	cargo build --release --package kubectl-mc
	$(MAKE) program
	cargo build --release --package kubectl-mc-api --examples
	mkdir -p target/bench && cp $(PROGRAM) target/bench/mc-sidecar
	TESTBED_OPTIMIZED=yes $(TESTBED) run --members 2 --node m1 --sidecar target/bench/mc-sidecar -- target/debug/bench $(BENCH)

.PHONY: kubernetes
kubernetes: ## Build the Kubernetes that the tests run; takes minutes the first time
	cargo build-all --bins
	$(TESTBED) build

.PHONY: everything
everything: ## Build all programs that `make test-all` runs; takes 20 minutes on two cores the first time
	cargo build-all --bins
	$(TESTBED) build --everything

# With --target, the flags apply to the program and not to build scripts. Packed relocations save memory, because the start
# reads all of them; a linker without support warns and continues. Strip local crate paths from the binary.
PROGRAM_FLAGS := -C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs \
	--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo $(if $(CROSS),-C linker=$(CROSS)gcc)

.PHONY: program
program: ## Build the static sidecar for the image (PLATFORM=aarch64-unknown-linux-gnu: for another processor)
	$(if $(CROSS),rustup target add $(PLATFORM))
	GIT_COMMIT="$$(git rev-parse --short=12 HEAD 2>/dev/null)" RUSTFLAGS="$(PROGRAM_FLAGS)" cargo build --profile $(PROFILE) --locked --package sidecar --target $(PLATFORM) \
		$(if $(MESSAGES),--message-format $(MESSAGES))

# The static plugin uses musl, because a static glibc loads the machine's libraries to resolve names. Debian's musl
# compiler is gcc with other headers.
PLUGIN_PLATFORM := $(PLATFORM:-gnu=-musl)
MUSL := $(firstword $(subst -, ,$(PLATFORM)))-linux-musl
PLUGIN_FLAGS := --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo $(if $(CROSS),-C linker=$(CROSS)gcc)

.PHONY: plugin
plugin: ## Build the static plugin for a release (PLATFORM=aarch64-unknown-linux-gnu: for another processor)
	rustup target add $(PLUGIN_PLATFORM)
	CC_$(subst -,_,$(PLUGIN_PLATFORM))="$(CROSS)gcc -specs /usr/lib/$(MUSL)/musl-gcc.specs" RUSTFLAGS="$(PLUGIN_FLAGS)" \
		cargo build --profile $(PROFILE) --locked --package kubectl-mc --target $(PLUGIN_PLATFORM)

.PHONY: image
image: ## Build the sidecar's image IMAGE=NAME (PLATFORMS=linux/amd64,linux/arm64: both; PUSH=yes: push it; ARCHIVE=FILE: write it)
	@test -n "$(IMAGE)" || { echo "IMAGE=NAME is needed" >&2; exit 2; }
	@sidecar/image/build.sh $(IMAGE)

.PHONY: release
release: ## Build all files of a release into target/dist, from a clean checkout (IMAGE=NAME: published name of the image; PLATFORMS)
	@test -n "$(IMAGE)" || { echo "IMAGE=NAME is needed" >&2; exit 2; }
	@tests/setup.sh --release
	@krew/release.sh $(IMAGE)

.PHONY: release-test
release-test: ## Install the plugin of `make release` with krew, and unpack its packages (DIST=FOLDER: instead of target/dist)
	@tests/setup.sh --release-test
	RELEASE_DIST="$(abspath $(or $(DIST),target/dist))" cargo test-all --test krew_install --test linux_packages -- --ignored of_a_release

.PHONY: docs
docs: ## Build the documentation as a site in target/site, and check its links
	@tests/site/build.sh

.PHONY: recording
recording: kubernetes ## Record README.md's terminal session: docs/images/recording.cast and its pictures
	$(TESTBED) run --members 3 --node m1 --node m2 --node m3 --sidecar target/debug/mc-sidecar -- tests/recording.py record
	tests/recording.py --write

.PHONY: image-test
image-test: ## Build the image, check its content and run its program (PLATFORMS=linux/amd64,linux/arm64: both, arm64 with qemu)
	@tests/setup.sh $(if $(findstring arm64,$(PLATFORMS)),--arm64)
	@ARCHIVE=target/image/mc-sidecar.tar BUILDER=buildah sidecar/image/build.sh testbed.local/mc-sidecar:1
	cargo test-all --test image -- $(if $(filter dev,$(PROFILE)),$(NOT_OF_A_DEBUG_BUILD))

# A debug build is large, and its C code contains paths of the build machine.
NOT_OF_A_DEBUG_BUILD := --skip compressed_image_stays_below_the_size_limit --skip program_contains_no_paths_of_the_build_machine

.PHONY: clean
clean: ## Stop leftover test beds and remove all builds
	if [ -x $(TESTBED) ]; then $(TESTBED) down; fi
	cargo clean
	@echo "Go's caches and the installed packages stay; go clean -cache -modcache empties the caches."
