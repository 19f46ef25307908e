# Every target sets up what it needs. `make demo` and `make test` are the two to begin with.
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# The first of these that is Python 3.11 or newer.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Where the CPU build of torch comes from on Linux machines without an NVIDIA GPU; empty: from PyPI, with CUDA libraries.
TORCH_INDEX ?= $(shell [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null && \
	echo https://download.pytorch.org/whl/cpu)

# Where `make bench` writes, with pictures beside it.
BENCH ?= bench/speed.md

# Where `make gpu` writes; sections of it, all if empty; a folder of wheels of packages that are missing; seconds in all.
GPU ?= bench/gpu.md
SECTIONS ?=
WHEELS ?=
TOTAL ?= 590

# Where `make test-versions` makes its environments, and versions of packages in place of the lowest ones.
VERSIONS ?= .venv-versions
KEEP ?=

# Python compiles what is imported; the rest of the packages, most of them, is never compiled.
PIP_INSTALL = -m pip install --quiet --no-compile
unexport PYTHONDONTWRITEBYTECODE

export PIP_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: install demo test test-all test-versions check docs explorer bench bench-peers gpu clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "regard needs Python 3.11 or newer; make PYTHON=... names one."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@[ -z "$(TORCH_INDEX)" ] || $(BIN)/python $(PIP_INSTALL) --retries 0 --timeout 20 \
		--extra-index-url "$(TORCH_INDEX)" torch 2>$(VENV)/torch.log || \
		echo "No CPU build of torch at hand ($(VENV)/torch.log says why): pip takes what PyPI has, which may be large."
	$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	@touch $@

demo: install
	PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

# Without what tests/slow.txt lists: guides that train, what torch compiles, killed trainings, rehearsals of `make gpu`, combinations.
test: install
	$(PYTEST) -m "not slow"

test-all: install
	$(PYTEST)

# The command line and the configuration with the lowest version of every package that pyproject.toml admits, and with the
# newest; on a machine without an NVIDIA GPU, KEEP=torch==VERSION+cpu spares the CUDA libraries of the lowest torch.
test-versions: install
	@mkdir -p $(VERSIONS)
	$(BIN)/python tests/dependency_versions.py --keep $(KEEP) > $(VERSIONS)/lowest.txt
	@echo "$(KEEP)" > $(VERSIONS)/newest.txt
	for each in lowest newest; do \
		$(PYTHON) -m venv $(VERSIONS)/$$each && export PIP_CONSTRAINT=$(VERSIONS)/$$each.txt && \
		{ [ -z "$(TORCH_INDEX)" ] || $(VERSIONS)/$$each/bin/python $(PIP_INSTALL) --retries 0 --timeout 20 \
			--extra-index-url "$(TORCH_INDEX)" torch 2>$(VERSIONS)/$$each.log || true; } && \
		$(VERSIONS)/$$each/bin/python $(PIP_INSTALL) --upgrade --upgrade-strategy eager --editable '.[dev]' && \
		$(VERSIONS)/$$each/bin/python -m pytest --numprocesses 2 --dist loadfile tests/test_cli_*.py tests/test_config_*.py \
			tests/test_errors.py || exit 1; \
	done

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) docs

docs: install
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo docs/_build/html/index.html

# The page of `regard serve`, from explorer/ into src/regard/serve/page/; needs node 20 or newer. The result is committed.
explorer:
	cd explorer && npm ci --no-audit --no-fund && npm run --silent build

bench: install
	$(BIN)/python benchmarks/bench.py --threads 1,2 --output $(BENCH)
	@echo $(BENCH)

# The same jobs by other libraries, at the end of the same file; their environments need some GB.
bench-peers: install
	$(BIN)/python benchmarks/peers/run.py --folder .venv-peers --append --output $(BENCH)

# What needs an NVIDIA GPU, the most important first. It installs nothing: the machine may have no network.
gpu:
	$(or $(wildcard $(BIN)/python),$(PYTHON)) benchmarks/gpu/run.py $(SECTIONS) --output $(GPU) --total $(TOTAL) \
		$(if $(WHEELS),--wheels $(WHEELS))

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
