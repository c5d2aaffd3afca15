# Two commands matter: `make demo` and `make test`. Both build what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: install demo page docs pages test test-cpus fuzz lint format shape bench bench-peers release-check clean
.DEFAULT_GOAL := demo

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("infrec needs Python 3.11 or newer, found %d.%d. Try: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[plot,serve,privacy,dev]'
	@touch $(STAMP)

demo: install
	@$(BIN)/infrec demo

page: install
	@$(BIN)/infrec demo --serve

# The documentation as a site, in build/site.
docs: $(VENV)/.installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site is in build/site: $(BIN)/python -m http.server -d build/site"

$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Run the code of the documentation, and write what it prints and draws into the pages; PAGES="README.md" for some.
pages: install
	@$(BIN)/python tools/run_pages.py --write $(PAGES)

test: install
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The numerical tests with the kernels of other CPUs; CPUS="Haswell Nehalem-1" for some of them.
test-cpus: install
	@$(BIN)/python tests/cpus.py $(CPUS)

# Damaged and hostile files, found by chance. Overnight: make fuzz SECONDS=40000 SEED=1
SECONDS ?= 60
SEED    ?= 0

fuzz: install
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --explicit-package-bases --ignore-missing-imports benchmarks

format: install
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Lines, files, journeys, cycles: the shape of the source tree, beside its goals.
shape: install
	@$(BIN)/python tools/shape.py

bench: install
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Other libraries, trained on what infrec exports. DATA=ml-1m USERS=500 for the real thing (minutes).
DATA  ?= demo
USERS ?= 50
PEERS := .venv-peers

$(PEERS)/.installed: benchmarks/peers/requirements.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r $<
	@touch $@

bench-peers: install $(PEERS)/.installed
	@$(BIN)/python benchmarks/peers/prepare.py build/peers --data $(DATA) --users $(USERS)
	@$(PEERS)/bin/python benchmarks/peers/train.py build/peers
	@$(BIN)/python benchmarks/baselines.py --data $(DATA) --peers $(PEERS)/bin/python

# Wheel and source archive, built, looked into and tried in environments of their own; in build/release.
release-check: install
	@$(BIN)/python tools/release_check.py

clean:
	rm -rf $(PEERS) $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
