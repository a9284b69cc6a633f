# Everything runs in .venv, which is made and filled when it is needed; nothing else is touched. Another Python that is
# named, as in `make test PYTHON=python3.12`, has an environment of its own: .venv-3.12.
PYTHON ?= python3
ifeq ($(PYTHON),python3)
VENV   := .venv
else
VENV   := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' || echo none)
endif
MINIMA := .venv-minima
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Dependency groups need pip 25.1; the pip of a new environment is often older.
GROUPS := $(PIP) install 'pip>=25.1' && $(PIP)

# The tests of the packages that `make coverage` measures, with a few recordings, as the others reach nothing more. The code of
# processes that are killed is not measured.
COVERED := tests/core tests/run/test_lifecycle.py tests/run/test_lifecycle_table.py tests/chat/store tests/chat/history \
	$(addprefix tests/doc/test_,agent_doc.py append.py components.py front_matter.py lines.py merge.py merge_random.py merge_saves.py \
	proposals.py queue_items.py reply.py scan.py submission.py)

# Tests that have targets of their own.
OTHER_TARGETS := $(addprefix --ignore=tests/,doc loop repo cluster project chat/web/test_cuts.py chat/web/test_kills.py chat/web/test_acp_kills.py)

# The fast tests, with a Python. In a fresh clone, each of the workers would rewrite all asserts to show their values, which
# takes longer than a third of the tests. So only those that fail run with that, once more; the first run decides.
FAST_TESTS = $(1) -m pytest -n auto --dist worksteal --assert=plain $(ARGS) || { status=$$?; [ $$status -ne 1 ] || { \
	echo "Once more, those that failed, with the values that they compare:" >&2; \
	$(1) -m pytest --last-failed --last-failed-no-failures none $(ARGS); }; exit $$status; }

# Compiled modules are kept: hundreds of tests start Penstock as a program.
unexport PYTHONDONTWRITEBYTECODE

# One file for all Pythons and systems. Versions that are in it already stay, unless ARGS says otherwise.
PINS := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make constraints"

PAGE_CODE := "src/penstock/chat/page/!(vendor)/**/*.js" "src/penstock/chat/page/*.js" "tests/page/unit/*.{js,mjs}"

.DEFAULT_GOAL := help
.PHONY: help demo docs page page-check page-types test test-cases test-minima test-wheel test-chat test-cuts test-page test-page-agents test-doc test-loop test-cluster test-agents test-editors soak coverage record kinds digests outdated check format bench mutants picture lifecycle options reference man constraints dist clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-16s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.run ## show Penstock at work on a real recording
	@$(BIN)/penstock demo

page: ## fetch what the chat's page loads from npm
	@$(PYTHON) page/vendor.py

page-check: ## check the types and the format of the page's code; needs npm
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory page/node_modules/.checked && \
		page/node_modules/.bin/tsc -p page/tsconfig.json && \
		page/node_modules/.bin/prettier --config page/.prettierrc.json --log-level warn --check $(PAGE_CODE); \
	else echo "The page's code is not checked: there is no npm." >&2; fi

page-types: $(VENV)/.run ## write the page's types of the API anew, from the server's OpenAPI document
	@$(BIN)/python page/api_types.py

test: $(VENV)/.dev ## run the fast tests; `make check` runs those of the project's rules
	@$(call FAST_TESTS,$(BIN)/python)

test-cases: $(VENV)/.dev ## run what `make test` leaves out, but for doc, loop, cluster and project: slow tests, and every twelfth of the cases and recordings that are left
	PENSTOCK_ALL_TESTS=1 $(BIN)/python -m pytest -m "slow or sample" -n auto --dist worksteal $(OTHER_TARGETS) $(ARGS)

test-minima: $(MINIMA)/.dev ## run the fast tests with the lowest versions of other packages that pyproject.toml allows
	@$(call FAST_TESTS,$(MINIMA)/bin/python)

coverage: $(VENV)/.dev ## measure the branch coverage of core, run/lifecycle, chat/store, chat/history and the texts of doc: all of it
	PENSTOCK_SOAK=1 $(BIN)/python -m pytest $(COVERED) -k "(not / or claude/think) and not test_a_kill_takes" --cov --hypothesis-seed=0 -n auto -q $(ARGS)

test-wheel: $(VENV)/.dev page ## build wheel and sdist, and run the wheel where nothing else is installed
	PENSTOCK_WHEEL=1 $(BIN)/python -m pytest tests/wheel -rfEs $(ARGS)

test-chat: test-cuts test-page test-page-agents ## run the chat with cuts and kills, and in a real browser

test-cuts: $(VENV)/.dev ## run the chat over lines that are cut and with servers that are killed
	PENSTOCK_CHAT=1 PENSTOCK_ALL_TESTS=1 $(BIN)/python -m pytest $(addprefix tests/chat/web/test_,cuts.py kills.py acp_kills.py) -n auto $(ARGS)

test-page: $(VENV)/.browser page ## run the chat's page in a real browser; needs chromium, or PENSTOCK_CHROMIUM=…
	PENSTOCK_CHAT=1 $(BIN)/python -m pytest tests/page -n auto --dist worksteal -rfEs $(ARGS)

test-page-agents: $(VENV)/.browser page ## run the chat's page with real agents; needs chromium too
	$(BIN)/python tests/real/install.py pi claude || echo "Their tests are skipped." >&2
	PENSTOCK_CHAT=1 PENSTOCK_REAL_AGENTS=pi,claude tests/real/offline.sh $(BIN)/python -m pytest tests/real/test_page.py -rfEs $(ARGS)

test-doc: $(VENV)/.dev ## run documents: the command line, watching, kills at system calls
	PENSTOCK_ALL_TESTS=1 $(BIN)/python -m pytest tests/doc -m slow -n auto --dist worksteal -rfEs $(ARGS)

test-loop: $(VENV)/.dev ## run loops with scripted agents and a real git: kills, limits, agents that do harm
	PENSTOCK_ALL_TESTS=1 $(BIN)/python -m pytest tests/loop tests/repo -m "slow or sample" -n auto --dist worksteal -rfEs $(ARGS)

test-cluster: $(VENV)/.dev ## run the store and the nodes on a real PostgreSQL that the tests start: kills, restarts, a slow network
	PENSTOCK_ALL_TESTS=1 $(BIN)/python -m pytest tests/cluster -n auto --dist worksteal -rfEs $(ARGS)

test-agents: $(VENV)/.dev ## run the real agents, from npm, against a local model server; AGENTS=codex,claude-acp for some
	$(BIN)/python tests/real/install.py || echo "Their tests are skipped." >&2
	PENSTOCK_REAL_AGENTS=$(or $(AGENTS),1) tests/real/offline.sh $(BIN)/python -m pytest tests/real -n auto --dist loadgroup -rfEs $(ARGS)

test-editors: $(VENV)/.dev ## run Vim and Emacs in a terminal on a document that is answered; needs tmux
	PENSTOCK_EDITORS=1 $(BIN)/python -m pytest tests/doc/test_editors.py -rfEs $(ARGS)

soak: ## run all tests at their full counts: all recordings and examples, all cases in the browser, all agents on all routes, 500 cuts, 50 kills, 200 of editors' connections
	PENSTOCK_SOAK=1 $(MAKE) test
	PENSTOCK_SOAK=1 $(MAKE) test-chat
	PENSTOCK_SOAK=1 $(MAKE) test-doc
	PENSTOCK_SOAK=1 $(MAKE) test-loop
	PENSTOCK_SOAK=1 $(MAKE) test-cluster
	PENSTOCK_SOAK=1 $(MAKE) test-agents

record: $(VENV)/.dev ## record the real agents anew, for a diff to review; AGENTS="codex claude" for some
	$(BIN)/python tests/real/install.py || echo "They are not recorded." >&2
	tests/real/offline.sh $(BIN)/python tests/real/record.py $(AGENTS) $(ARGS)
	$(BIN)/python tests/real/kinds.py

outdated: $(VENV)/.dev ## ask npm and PyPI which agents are newer than those that the tests run
	$(BIN)/python tests/real/outdated.py

kinds: $(VENV)/.dev ## write the kinds of lines in the recordings into kinds.json of each agent, and the table of versions
	$(BIN)/python tests/real/kinds.py

digests: $(VENV)/.dev ## write the digests of the text of all recordings, after it was changed on purpose
	$(BIN)/python tests/support/shown_digests.py

check: $(VENV)/.browser ## lint, format, types, project rules; of the page too where npm is there
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PENSTOCK_ALL_TESTS=1 $(BIN)/python -m pytest -q tests/project -n auto
	@$(MAKE) --no-print-directory page-check

format: $(VENV)/.dev ## format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@! command -v npm >/dev/null || { $(MAKE) --no-print-directory page/node_modules/.checked && \
		page/node_modules/.bin/prettier --config page/.prettierrc.json --log-level warn --write $(PAGE_CODE); }

bench: $(VENV)/.bench ## measure speed and memory beside other tools
	$(BIN)/python bench/run.py $(ARGS)

mutants: $(VENV)/.dev ## break the code in one place at a time, and show which breaks no fast test notices
	$(BIN)/python bench/mutants.py $(ARGS)

docs: $(VENV)/.docs ## build the site of the documents into build/site, strictly
	$(BIN)/python -m mkdocs build --strict

picture: $(VENV)/.run ## draw the pictures of the documents from real runs
	@$(BIN)/python docs/picture.py

lifecycle: $(VENV)/.run ## write the table of a run's states into docs/processes.md
	@$(BIN)/python docs/lifecycle.py

options: $(VENV)/.run ## write the tables of options and of agents into the documents
	@$(BIN)/python docs/options.py
	@$(BIN)/python docs/llms.py

reference: $(VENV)/.dev ## write the names that type checkers see in the package, and docs/python-reference.md
	@$(BIN)/python docs/reference.py

constraints: $(VENV)/.release ## pin the versions of all packages that Penstock needs, with hashes; ARGS=--upgrade takes newer ones
	@$(PINS) --all-extras pyproject.toml --output-file constraints.txt $(ARGS)
	@$(PINS) --group release --constraints constraints.txt --output-file packaging/tools.txt $(ARGS)

dist: $(VENV)/.release page ## build the wheel, the sdist and the bill of materials into dist
	@rm -rf dist && $(BIN)/uv build --quiet --build-constraints packaging/tools.txt --require-hashes
	@$(BIN)/python packaging/sbom.py >dist/penstock.cdx.json

man: $(VENV)/.run ## write the man page docs/penstock.1 from the command line
	@$(BIN)/python docs/man.py

clean: ## remove the environments and all caches
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

page/node_modules/.checked: page/package-lock.json
	@echo "Installing what checks the page's code into page/node_modules …" >&2
	@cd page && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# A stamp is newer than pyproject.toml while its packages are installed.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Penstock needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "Python cannot make a virtual environment here (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "Installing Penstock into $(VENV) …" >&2
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing Penstock and its test tools into $(VENV) …" >&2
	@$(GROUPS) install --editable '.[cluster,otel,push]' --group dev
	@touch $@ $(VENV)/.run

$(MINIMA)/.dev: pyproject.toml .ci/minima
	@echo "Installing Penstock with the lowest versions into $(MINIMA) …" >&2
	@$(PYTHON) -m venv --clear $(MINIMA) && mkdir -p build && $(PYTHON) .ci/minima >build/minima.txt
	@$(MINIMA)/bin/python -m pip --disable-pip-version-check --quiet install 'pip>=25.1'
	@$(MINIMA)/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[cluster,otel,push]' --group dev --constraint build/minima.txt
	@touch $@

$(VENV)/.browser: pyproject.toml | $(BIN)/python
	@echo "Installing Penstock and what drives a browser into $(VENV) …" >&2
	@$(GROUPS) install --editable '.[cluster,otel,push]' --group dev --group browser
	@touch $@ $(VENV)/.dev $(VENV)/.run

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	@echo "Installing Penstock and what it is measured against into $(VENV) …" >&2
	@$(GROUPS) install --editable '.[cluster,otel,push]' --group bench
	@touch $@ $(VENV)/.run

$(VENV)/.release: packaging/tools.txt | $(BIN)/python
	@echo "Installing what builds a release into $(VENV) …" >&2
	@$(PIP) install --require-hashes --requirement packaging/tools.txt
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@echo "Installing what builds the documents into $(VENV) …" >&2
	@$(GROUPS) install --group docs
	@touch $@
