# What people and CI call. `make test` is everything that must hold before a change lands.

CARGO ?= cargo

.PHONY: test rust java python-and-browser prose format lint header build unit docs web web-check browser python python-download tested-wheel installed-wheel ttnn ttnn-download torch-matrix wheel bench bench-page bench-gantt bench-diff bench-fleet bench-fleet-page bench-serve bench-torch bench-tracker bench-capture bench-snapshot native-tools check-data coverage bless soak soak-tracker deny deny-download package dist dist-test clean

# With nothing compiled, it takes longer to prepare for the next build than to build. Where `cargo` has prepared for it
# already, this takes part.
export CARGO_INCREMENTAL ?= $(if $(wildcard target/debug/incremental/*),1,0)

# Downloads go on in the background. What needs no compiler comes first, then one build of everything in Rust, then all tests.
# Two things run at a time, since most of them use one processor; what each prints is shown when it ends.
test: python-download ttnn-download deny-download prose web-check format build
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target rust python-and-browser
	$(MAKE) --no-print-directory deny

# In this order: the tests of Rust leave cargo free for the wheel, which is built meanwhile; and browsers wait much. (`--jobs=1`
# would end the waiting for what is printed.)
rust:
	$(MAKE) --no-print-directory IN_ORDER=1 unit header ttnn

python-and-browser:
	$(MAKE) --no-print-directory IN_ORDER=1 python browser

ifdef IN_ORDER
.NOTPARALLEL:
endif

# Documentation, messages and comments, compared with the phrases in tools/prose/patterns.ini.
prose:
	python3 tools/prose/check.py

format:
	$(CARGO) fmt --all -- --check

# Without a build. (`make test` lints while it builds.)
lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Clippy's compiler in place of rustc: it lints and builds in one pass, where `cargo clippy` beside `cargo build` reads
# everything twice, dependencies included. CLIPPY_ARGS is what `cargo clippy -- -D warnings` sets. (Without MAKEFLAGS, compilers
# do not ask make how many of them may run.)
LINTING := MAKEFLAGS= RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

# What is committed must be what the sources of the C library make. Where neither has changed since, there is nothing to make.
header:
	sha256sum --check --quiet tools/c-header/made.sha256 || \
		$(CARGO) run --locked --quiet --manifest-path tools/c-header/Cargo.toml -- --check

# Everything in Rust that tests need: the libraries of C as well, which `cargo test` does not build. First, a lint must
# fail.
build:
	@mkdir -p target && echo 'pub fn f(x: &Vec<u8>) -> usize { x.len() }' | \
		$(LINTING) clippy-driver rustc --crate-name f --crate-type lib --emit metadata -o target/lint.rmeta - 2>&1 | \
		grep -q 'clippy::ptr-arg. implied by .-D warnings' || \
		{ echo 'clippy-driver is missing, or does not lint as it did: see LINTING in the Makefile'; exit 1; }
	$(LINTING) $(CARGO) build --workspace --all-targets --locked --quiet

# The README's first command must know which binary it means. (Running it here would build all a second time, with another
# profile.)
unit: native-tools build
	RUSTDOC=$(CURDIR)/tools/rustdoc.sh $(LINTING) PROPTEST_CASES=64 $(CARGO) test --workspace --locked --quiet
	$(CARGO) metadata --locked --no-deps --format-version 1 | grep -q '"default_run":"ttmem"'

# What builds the programs in C and C++ that the tests of the tracker's library run.
native-tools:
	for tool in gcc g++ cmake make; do command -v $$tool >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq $$tool; } || exit 1; done

# All pages of documentation. (`make test` makes those of libraries with examples, as it runs the examples.)
docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

# Not `npm ci`: it refuses a lock without the binaries of platforms that a registry does not have.
web/node_modules: web/package-lock.json
	cd web && npm install --no-save --no-audit --no-fund
	@touch $@

# The pages, built into the crates and the Python package that contain them.
web: web/node_modules
	cd web && npm run build

# The pages' own tests; and what is committed must be what their sources build.
web-check: web/node_modules
	cd web && npm run check && npm test
	cd web && npx vite build --outDir ../target/page --emptyOutDir --logLevel warn
	cd web && npx vite build --config vite.serve.config.ts --outDir ../target/page --logLevel warn
	cd web && npx vite build --config vite.gantt.config.ts --outDir ../target/page --logLevel warn
	cd web && npx vite build --config vite.diff.config.ts --outDir ../target/page --logLevel warn
	cd web && npx vite build --config vite.fleet.config.ts --outDir ../target/page --logLevel warn
	@for page in crates/ttmem-report/assets/report crates/ttmem-report/assets/gantt crates/ttmem-report/assets/diff \
		crates/ttmem-serve/assets/serve python/ttmem/fleet/page; do \
		cmp target/page/$${page##*/}.html $$page.html || \
		{ echo "$$page.html is out of date: run 'make web' and commit it"; exit 1; }; done

# The page in real browsers, with all network blocked.
browser: web/node_modules build installed-wheel
	for browser in chromium firefox-esr; do command -v $$browser >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq $$browser; } || exit 1; done
	cd web && npx playwright test

# What the tests of the Python package need is large (PyTorch): it comes while Rust is compiled. What goes wrong here is
# tried again, and shown, by whoever waits for it.
python-download:
	bash python/environment.sh --interpreter
	bash python/environment.sh test </dev/null >/dev/null 2>&1 &

# What the tests need for Spark.
java:
	command -v java >/dev/null || { apt-get update -qq && apt-get install -y -qq default-jre-headless; }

# The Python package: its sources, and the wheel, installed as people install it.
python: installed-wheel java
	target/venv/bin/ruff format --check .
	target/venv/bin/ruff check .
	target/venv/bin/mypy
	target/venv/bin/pytest --numprocesses 2 --dist loadfile

# As people install it. The page of a fleet is written by Python, so that the browser's tests need it as well.
installed-wheel: tested-wheel
	target/venv/bin/pip install --quiet --force-reinstall --no-deps --no-index target/wheels/tested/*.whl

tested-wheel: build
	$(LINTING) bash python/tested_wheel.sh

# ttnn itself, 700 MB, downloaded in the background for the same reason.
ttnn-download:
	bash python/ttnn_tests/environment.sh </dev/null >/dev/null 2>&1 &

# Captures, reports and databases of real ttnn on cards that are described, not there: what ttmem reads is what ttnn's
# allocator holds. Skipped with a line where no Python fits; TTMEM_REQUIRE_TTNN=1 makes that a failure.
ttnn: tested-wheel
	bash python/ttnn_tests/test.sh

# The same tests on older versions of PyTorch, after `make python`. Long, and some 5 GB of download for each:
# `make torch-matrix TORCH_VERSIONS='2.4.1@python3.10 2.8.0'`.
TORCH_VERSIONS ?= 2.4.1 2.5.1 2.6.0 2.8.0 2.10.0 2.12.1
torch-matrix:
	bash python/torch_matrix.sh $(TORCH_VERSIONS)

# The wheel that is released: target/wheels/ttmem-*.whl, for every Python from 3.10 on.
wheel:
	bash python/environment.sh build
	target/venv/bin/maturin build --profile dist --interpreter target/venv/bin/python --out target/wheels

# Every log with a known truth, field by field: held or not.
check-data:
	$(CARGO) run --release --locked --quiet -p ttmem --example check_data

# Time against grep and memory as the kernel counts it, on two made logs of 100,000 operations; and how long small
# things take.
bench:
	$(CARGO) build --profile dist --locked --workspace
	bash bench/run.sh
	bash bench/start.sh
	bash bench/snapshot.sh

# The page: its size, how long until it is drawn, how smooth it is, what writing it costs.
bench-page: web/node_modules
	$(CARGO) build --profile dist --locked --workspace --examples --bins
	bash bench/page.sh

# Memory snapshots of PyTorch, up to 20 million events, and PyTorch's own command. After `make python`.
bench-snapshot:
	$(CARGO) build --profile dist --locked --bins
	LARGE=1 bash bench/snapshot.sh

# The chart of what ran when, with 200,000 calls: its size, how long until it is drawn, how smooth it is.
bench-gantt: web/node_modules
	$(CARGO) build --profile dist --locked -p ttmem-cli --bins
	$(CARGO) build --profile dist --locked -p ttmem --example make_calls
	bash bench/gantt.sh

# Comparisons of profiles with up to a million operations: time and memory.
bench-diff:
	$(CARGO) build --profile dist --locked --workspace --bins
	bash bench/diff.sh

# A fleet of 4,096 ranks with 8 million tensors: the size of its dataset, the export, the time of each question. After
# `make python`.
bench-fleet:
	$(CARGO) build --profile dist --locked --workspace --bins
	target/venv/bin/python bench/fleet.py

# The page of a fleet with 4,096 ranks: its size, how long until it is drawn, how smooth it is. After `make python`.
bench-fleet-page: web/node_modules
	bash bench/fleet-page.sh

# The server under load: 200 readers and 8 uploads of 100 MB at once; answers, time and memory.
bench-serve:
	$(CARGO) build --profile dist --locked --workspace --examples --bins
	bash bench/serve.sh

# The tracker: nanoseconds for each allocation or free, against a hash map.
bench-tracker:
	$(CARGO) build --profile dist --locked -p ttmem --examples
	bash bench/tracker.sh

# Watching a PyTorch program: microseconds for each operation, against an empty dispatch mode.
bench-torch: wheel
	target/venv/bin/pip install --quiet torch numpy
	target/venv/bin/pip install --quiet --force-reinstall --no-deps --no-index target/wheels/*.whl
	target/venv/bin/python bench/torch_cost.py

# A graph capture of a gigabyte, and a detailed report of six: time against Python, memory as the kernel counts it.
bench-capture:
	$(CARGO) build --profile dist --locked --workspace
	bash bench/capture.sh
	bash bench/report.sh

# Lines of each crate that the tests in Rust run; `python3 tools/coverage.py --files` lists the files.
coverage: native-tools
	bash python/environment.sh --interpreter
	python3 tools/coverage.py

# Rewrites the expected outputs of snapshot tests and the TypeScript types of the answers (`make web` after that); read the
# difference before you commit it.
bless:
	INSTA_UPDATE=always $(CARGO) test --workspace --locked --quiet
	$(CARGO) run --locked --quiet --manifest-path tools/c-header/Cargo.toml
	sha256sum include/ttmem.h crates/ttmem-c/cbindgen.toml crates/ttmem-c/src/*.rs tools/c-header/Cargo.toml \
		tools/c-header/Cargo.lock tools/c-header/src/main.rs >tools/c-header/made.sha256

# Long: the codec's properties with many more cases, every line of every log damaged in every way, more rounds of the tests in
# Python, 5000 random ttnn programs on three cards, and a log of 5 GB (after `make python`).
soak:
	$(CARGO) build --workspace --all-targets --profile soak --locked --quiet
	TTMEM_SWEEP=all PROPTEST_CASES=5000 $(CARGO) test --workspace --profile soak --locked --quiet
	TTMEM_SWEEP=all target/venv/bin/pytest --quiet
	TTMEM_TTNN_PROGRAMS=5000 bash python/ttnn_tests/test.sh -q
	bash bench/large.sh

# Long: a day of a server, 300 million events, into a recording of 64 MiB; disk as counted, memory as the kernel counts it.
soak-tracker:
	$(CARGO) build --profile dist --locked -p ttmem --example soak_recorder
	target/dist/examples/soak_recorder 300000000 67108864

# Licenses, sources and wildcards of dependencies, as deny.toml allows them; the workflow also checks advisories.
deny:
	bash tools/cargo-deny.sh
	PATH="$$PATH:$$PWD/target/tools/bin" $(CARGO) deny --locked check licenses bans sources

# There is no package of cargo-deny: it is compiled in what the tests leave of the processors.
deny-download:
	nice -n 19 bash tools/cargo-deny.sh </dev/null >/dev/null 2>&1 &

# The .crate files of the crates on crates.io, each built from its package alone.
package:
	$(CARGO) package --workspace --locked

# What a release consists of, for this platform, into target/artifacts: archives, wheel, sdist, checksums.
PYTHON ?= python3
dist:
	bash python/environment.sh --interpreter
	$(PYTHON) packaging/dist.py

# Installs what `make dist` built into empty folders, and runs it. Long: builds the sdist and `pip install -e .`.
dist-test: native-tools
	target/venv-dist/bin/python packaging/dist_test.py

clean:
	$(CARGO) clean
