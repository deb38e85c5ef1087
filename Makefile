# Every target sets up what it needs. The two to know: `make run` and `make test`.

PYTHON_BIN := .venv/bin
READY := .venv/.ready
# Processes of the tests that run side by side; the clusters in them are real processes too.
TEST_PROCESSES ?= 2
TESTS ?= tests
# Seeds that `make test` simulates: always the same, so that a commit passes everywhere or nowhere.
SEEDS ?= 200
FIRST_SEED ?= 1
# How many of them it simulates interpreted as well; their events are the same.
INTERPRETED_SEEDS ?= 50

# Fresh seeds of `make soak`; a broken one prints the line that reproduces it.
SOAK_SEEDS ?= 2000

# How long `make chaos` starts rounds, and how long it does so at the end of `make test`.
CHAOS_SECONDS ?= 1200
TEST_CHAOS_SECONDS ?= 120
# How often `make chaos-reassign` changes the voters; five of them are among the tests.
REASSIGNMENTS ?= 100

# More for `make attack`: --only "forged leader" is a part of it, --scale 3 takes three times as long.
ATTACK ?=

# Of so many seeds the histories are audited: none may be called damaged, and no planted damage missed.
HISTORIES ?= 1000

# How often `make stream-kills` kills streams into Parquet; ten of them are among the tests.
KILLS ?= 100

# More for `make stock-tools`: --only brokers is a part of it, --kafka VERSION another one of the tools.
STOCK ?=

# Within so many seeds the simulator must catch each planted bug.
MUTANT_SEEDS ?= 2000
# More for the hunt: --missing hunts those without a recorded hunt, --profiles each in its own profile.
MUTANTS ?=

# More for the mutation run: --package raft is a part of it, --again judges survivors once more.
MUTATION ?= --sample 1000 --seed 1
# Seeds whose branches `make reached` counts.
REACHED_SEEDS ?= 192

# Inputs of the fuzzer, a few minutes of them; the same seed gives the same inputs.
FUZZ_INPUTS ?= 1000000
FUZZ_SEED ?= 1

# The package as `pip install` makes it, with its hot parts compiled; COMPILED before a command makes it take that.
COMPILED_READY := build/compiled/.ready
COMPILED := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/compiled:$(CURDIR)
WHY_NO_SPARK := $(PYTHON_BIN)/python -c 'import os; from quorumd.pipeline.spark.java import *; print(why_no_spark(os.environ) or "")'
WHY_INTERPRETED := $(PYTHON_BIN)/python -c 'from scripts.build_backend import *; print(why_interpreted() or "")'

# More for the benchmark: --interpreted measures the sources, --seconds 3 --rounds 1 is a quick look.
BENCH ?=

.PHONY: attack audit-histories bench chaos chaos-reassign check clean compile fuzz help messages mutants mutation quick reached run setup soak standalone stock-tools stream-kills test test-compiled

help:
	@echo "make run       set up, start a three-node cluster on this machine, show it at work; Ctrl-C stops it"
	@echo "make quick     lint, types, unit and property tests of raft, log, controller and protocol; about a minute"
	@echo "make test      set up, check, and run all tests"
	@echo "make setup     create .venv and install everything into it"
	@echo "make check     ruff, mypy, import contracts, house rules, generated code is fresh"
	@echo "make compile   the package as pip installs it, hot parts compiled, to build/compiled; make bench measures that"
	@echo "make messages  generate quorumd/protocol/messages from schemas/"
	@echo "make soak      fresh seeds of the simulator, SOAK_SEEDS of them (2000), and fresh examples for the property tests"
	@echo "make fuzz      hostile input for every parser, FUZZ_INPUTS of them (1000000); findings in build/fuzz/"
	@echo "make attack    attack a cluster of real processes in every known way under load; exit code 1 if a bound is broken"
	@echo "make bench     measure, write the figures to build/bench/"
	@echo "make chaos     hurt a cluster of real processes for 20 minutes, report to build/chaos/"
	@echo "make chaos-reassign  change the voters of five nodes 100 times while they are killed, report to build/chaos-reassign/"
	@echo "make audit-histories  audit what simulated nodes stored, HISTORIES seeds of it (1000), and plant faults"
	@echo "make standalone  a Spark master and two workers on loopback: the pipeline's source and commands give there what they give here"
	@echo "make stock-tools  Kafka's own tools and brokers (from Maven) on quorumd's plans, logs and nodes; the speed of its log dump"
	@echo "make stream-kills  kill -9 streams into Parquet KILLS times (100), count that every record is there once"
	@echo "make mutants   plant bugs into the code, each must be caught by the simulator; table in tests/README.md"
	@echo "make mutation  change code by machine, 1000 places; each change must fail a test or a simulated seed"
	@echo "make reached   measure the branches that 192 simulated seeds reach, and list what they do not"
	@echo "make clean     remove what was built (not .venv)"

setup: $(READY)

$(READY): pyproject.toml scripts/setup_venv.sh
	@scripts/setup_venv.sh

run: $(READY)
	@$(PYTHON_BIN)/python scripts/run_demo.py

test: check
	@reason="$$($(WHY_NO_SPARK))" || exit 1; \
	if [ -n "$$reason" ]; then echo "left out: tests/pipeline; $$reason"; without="--ignore=tests/pipeline"; fi; \
	rm -rf build/coverage; \
	set -x; $(PYTHON_BIN)/python -m pytest -p tests.support.branch_coverage -n $(TEST_PROCESSES) --dist loadfile $$without $(TESTS)
	test "$(TESTS)" != tests || $(PYTHON_BIN)/python scripts/check_coverage.py
	$(PYTHON_BIN)/quorumd simulate --seed $(FIRST_SEED) --seeds $(INTERPRETED_SEEDS)
	@reason="$$($(WHY_INTERPRETED))" || exit 1; \
	if [ -n "$$reason" ]; then echo "left out: the tests of the compiled package; $$reason"; \
	else $(MAKE) test-compiled; fi
	$(MAKE) chaos CHAOS_SECONDS=$(TEST_CHAOS_SECONDS)

# What is pure, for the loop of editing: no processes, no simulator, no Spark.
QUICK_TESTS := $(addprefix tests/unit/,raft log controller protocol) $(addprefix tests/property/, \
	test_raft_majority.py test_record_batch_properties.py test_cluster_image.py)

quick: $(READY)
	$(PYTHON_BIN)/ruff check .
	$(PYTHON_BIN)/ruff format --check --quiet .
	$(PYTHON_BIN)/mypy
	$(PYTHON_BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile $(QUICK_TESTS)

# What needs no stand-ins inside: a compiled class takes no other class for its own, a compiled module no other constant.
COMPILED_TESTS := $(addprefix tests/,property scenarios paper shell unit/raft unit/log unit/protocol unit/controller)

test-compiled: $(COMPILED_READY)
	$(COMPILED) $(PYTHON_BIN)/python -m quorumd --version
	$(COMPILED) $(PYTHON_BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m "not stand_in" -o pythonpath= $(COMPILED_TESTS)
	$(COMPILED) $(PYTHON_BIN)/python -m quorumd simulate --seed $(FIRST_SEED) --seeds $(SEEDS)

soak: $(COMPILED_READY)
	$(COMPILED) $(PYTHON_BIN)/python -m quorumd simulate --seeds $(SOAK_SEEDS)
	$(PYTHON_BIN)/python -m pytest -n $(TEST_PROCESSES) --hypothesis-profile=fresh tests/property

check: $(READY)
	$(PYTHON_BIN)/ruff check .
	$(PYTHON_BIN)/ruff format --check .
	$(PYTHON_BIN)/mypy
	$(PYTHON_BIN)/lint-imports
	$(PYTHON_BIN)/python scripts/house_rules.py
	$(PYTHON_BIN)/python scripts/generate_messages.py --check

messages: $(READY)
	$(PYTHON_BIN)/python scripts/generate_messages.py

fuzz: $(READY)
	$(PYTHON_BIN)/python -m tests.fuzz --inputs $(FUZZ_INPUTS) --seed $(FUZZ_SEED)

compile: $(COMPILED_READY)

$(COMPILED_READY): $(READY) scripts/build_backend.py $(shell find quorumd -name '*.py')
	rm -rf build/compiled
	$(PYTHON_BIN)/python -m pip install --quiet --no-deps --no-build-isolation --target build/compiled .
	@reason="$$($(WHY_INTERPRETED))" || exit 1; \
	if [ -n "$$reason" ]; then echo "build/compiled is interpreted: $$reason"; else touch $@; fi

bench: $(COMPILED_READY)
	$(PYTHON_BIN)/python -m scripts.bench $(BENCH)

attack: $(READY)
	$(PYTHON_BIN)/python -m tests.attacks $(ATTACK)

chaos: $(READY)
	$(PYTHON_BIN)/python -m tests.chaos --keep-data --seconds $(CHAOS_SECONDS)

audit-histories: $(READY)
	$(PYTHON_BIN)/python -m tests.simulation.audited_histories --seeds $(HISTORIES)

chaos-reassign: $(READY)
	$(PYTHON_BIN)/python -m tests.chaos --reassign --rounds $(REASSIGNMENTS)

standalone: $(READY)
	$(PYTHON_BIN)/python -m tests.pipeline.standalone

stock-tools: $(READY)
	$(PYTHON_BIN)/python -m tests.interop.stock_tools $(STOCK)

stream-kills: $(READY)
	$(PYTHON_BIN)/python -m tests.pipeline.stream_kills --kills $(KILLS)

mutants: $(READY)
	$(PYTHON_BIN)/python -m tests.mutants --seeds $(MUTANT_SEEDS) $(MUTANTS)

mutation: $(READY)
	$(PYTHON_BIN)/python -m tests.mutation $(MUTATION)

reached: $(READY)
	$(PYTHON_BIN)/python -m tests.simulation.reached_branches --seeds $(REACHED_SEEDS)

clean:
	rm -rf build run .mypy_cache .ruff_cache .import_linter_cache .hypothesis
