# `make help` lists what there is. Runs on Debian 12 with Rust; `make setup` brings the rest.

TARGET := $(or $(CARGO_TARGET_DIR),target)
LINERATE := $(TARGET)/release/linerate
# For `linerate --version`.
export LINERATE_COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

# What `make static` builds for.
STATIC := $(shell uname -m)-unknown-linux-musl

# What `make demo` runs.
DEMO := $(LINERATE) climb --beam httpd -c 2 -d 3s -o out/demo.html -o out/demo.json

# How long `make fuzz` looks, by target. Unit: seconds.
FUZZ_SECONDS := 60
FUZZ_TARGETS := http_session login_session evidence_reader dist_frame

.PHONY: help setup agent agent-of-erl build static deb demo check test agent-test bench-test link-test link-soak page-test provoke truth soak bench fuzz bless clean

help: ## list these
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: ## install from Debian what is missing here (asks nothing, starts nothing)
	@.ci/setup

agent: setup ## compile the Erlang side
	cd agent && rebar3 compile

build: agent ## compile everything for use
	cargo build --release

# With musl, so that no library of the host is needed. TLS (ring) has C in it: musl-tools compiles that.
static: setup ## one program that runs on any Linux: target/STATIC/release/linerate (musl)
	@.ci/setup static
	cargo build --release --target $(STATIC) -p linerate-cli
	@! readelf --dynamic $(TARGET)/$(STATIC)/release/linerate | grep NEEDED
	$(TARGET)/$(STATIC)/release/linerate --version

deb: build ## a Debian package in out/: program, man pages, completions (BINARY=... for another program)
	packaging/deb $(or $(BINARY),$(LINERATE)) out

demo: build ## find what limits a slow Erlang server, and lift it
	mkdir -p out
	$(DEMO)

check: ## format and lints
	@if cargo fmt --version >/dev/null 2>&1; then \
		echo 'cargo fmt --all --check'; cargo fmt --all --check; \
	else \
		echo 'note: format not checked: no rustfmt here (rustup component add rustfmt)'; \
	fi
	@if cargo clippy --version >/dev/null 2>&1; then \
		echo 'cargo clippy'; cargo clippy --profile $(or $(CHECK_PROFILE),dev) --workspace --all-targets -- -D warnings; \
	else \
		echo 'note: lints not checked: no clippy here (rustup component add clippy)'; \
	fi

# One profile for all of it: the release build is what is measured. What mostly waits runs
# side by side (tests/cargo-test says which); other loads never run at once.
test: agent ## every test but the long ones (provoke, soak, bench, fuzz)
	tests/cargo-test linerate-cli page-test -- agent-test bench-test

agent-test: ## the Erlang side
	cd agent && rebar3 eunit && rebar3 ct

bench-test: ## the bench's own arithmetic
	cd bench && python3 -B paired.py && python3 -B binomial.py && python3 -B judged.py && python3 -B -m doctest page.py

LINK_SUITES = $(subst $() $(),$(COMMA),$(foreach of,delivery processes peers opening tls,test_link/linerate_link_$(of)_SUITE))
COMMA = ,

link-test: agent setup ## the link between two nodes under faults; needs root (namespaces) and Elixir
	cd agent && rebar3 as test compile && rebar3 ct --suite $(LINK_SUITES)

link-soak: agent ## the link for ten minutes: order, loss, memory
	cd agent && rebar3 as test compile && rebar3 ct --suite test_link/linerate_link_soak_SUITE --verbose

page-test: setup ## the HTML report in a browser
	@[ -d tests/page/node_modules/playwright-core ] || { \
		echo 'npm install in tests/page'; \
		cd tests/page && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --no-audit --no-fund; \
	}
	cd tests/page && node --test

# ERL=.../bin/erl: nodes of another Erlang than the one in PATH, with the agent compiled by it.
provoke: agent $(if $(ERL),agent-of-erl) ## make each roof bind, and see that it is named (minutes; ERL=... for another Erlang, TRIES=10 for k of ten)
	PROVOKE=$(or $(PROVOKE),all) PROVOKE_TRIES=$(TRIES) $(if $(ERL),PATH="$(dir $(ERL)):$$PATH" LINERATE_AGENT="$(CURDIR)/out/agent") \
		cargo test --release --workspace --test provoke -- --nocapture

agent-of-erl: agent
	@mkdir -p out/agent && cp agent/_build/default/lib/linerate*/ebin/linerate*.app out/agent/
	$(ERL) -noshell -pa out/agent -eval '[{ok, _} = compile:file(F, [{outdir, "out/agent"}, debug_info]) || D <- ["", "*/", "link/src/"], F <- filelib:wildcard("agent/src/" ++ D ++ "*.erl")], halt().'

truth: build ## how often linerate is right: planted, foreign and healthy services (hours at TRIES=10; ONLY=WORD,... SUITE=foreign CORE=1)
	@.ci/setup truth
	bench/truth --tries $(or $(TRIES),3) $(if $(ONLY),--only $(ONLY)) $(if $(SUITE),--suite $(SUITE)) $(if $(CORE),--core) \
		$(if $(ONLY)$(SUITE)$(CORE),,--write docs/truth.md)

soak: build ## doctor at RabbitMQ, ejabberd and Yaws, ten runs of each case, its safety in full, its cost, load from hosts (an hour)
	DOCTOR_RUNS=$(or $(RUNS),10) cargo test --release --workspace --no-fail-fast \
		--test doctor_nodes --test doctor_safety -- --test-threads=1 --nocapture
	cargo test --release -p linerate-cli --test hosts -- --ignored --nocapture
	bench/watched

bench: build ## measure engine and paths; needs root and a quiet machine for 25 minutes
	cargo build --release -p linerate-engine -p linerate-lab --examples
	bench/run
	bench/paths

fuzz: ## throw bytes at the parsers, a minute each
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
		echo 'error: needs nightly Rust and cargo-fuzz:'; \
		echo '  rustup toolchain install nightly && cargo install cargo-fuzz'; \
		exit 1; \
	}
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target; \
		cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

bless: ## take what the reports say now as what they should say, and write docs/reference.md; review the diff
	INSTA_UPDATE=always cargo test --release -p linerate-report
	INSTA_UPDATE=always cargo test --release -p linerate-cli --bin linerate reference::

clean: ## remove what was built
	cargo clean
	rm -rf agent/_build out fuzz/target tests/page/node_modules
