# What people and CI call. `make test` is everything that must hold before a change lands.

CARGO ?= cargo

.PHONY: test format lint unit docs bench check-data bless soak clean

test: format lint unit docs

format:
	$(CARGO) fmt --all -- --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit:
	$(CARGO) test --workspace --locked --quiet

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

# Every log with a known truth, field by field: held or not.
check-data:
	$(CARGO) run --release --locked --quiet -p ttmem --example check_data

# Time against grep and memory as the kernel counts it, on two made logs of 100,000 operations.
bench:
	$(CARGO) build --release --locked --workspace
	bash bench/run.sh

# Rewrites the expected outputs of snapshot tests; read the difference before you commit it.
bless:
	INSTA_UPDATE=always $(CARGO) test --workspace --locked --quiet

# Long: the codec's properties with many more cases, and a log of 5 GB.
soak:
	PROPTEST_CASES=5000 $(CARGO) test --workspace --release --locked --quiet
	bash bench/large.sh

clean:
	$(CARGO) clean
