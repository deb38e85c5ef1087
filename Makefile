# Every target installs what it needs. Start with `make run` and `make test`.

PYTHON_BIN := .venv/bin
READY := .venv/.ready
# Parallel test processes, one more than processors: tests of clusters, which are further processes, wait half of the time.
TEST_PROCESSES ?= 3
# Files stay together, as they share clusters, and begin in the order of the directories: the many short ones of tests/unit
# come last and keep all processes busy to the end. pytest-xdist would begin files of one long test last.
DISTRIBUTED := -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --durations 25
TESTS ?= tests
# Seeds that `make test` simulates, always the same, so that the result depends on the commit only.
SEEDS ?= 200
FIRST_SEED ?= 1
# The number of them that it also simulates interpreted, with the same events.
INTERPRETED_SEEDS ?= 20

# Fresh seeds of `make soak`; a violation is printed with the command that reproduces it.
SOAK_SEEDS ?= 2000

# Duration of `make chaos`, and of its short form at the end of `make test`.
CHAOS_SECONDS ?= 1200
TEST_CHAOS_SECONDS ?= 120
# Voter changes of `make chaos-reassign`; the tests have five.
REASSIGNMENTS ?= 100

# Options of `make attack`: --only "forged leader" runs one part, --scale 3 takes three times as long.
ATTACK ?=

# Seeds of `make audit-histories`: the audit must report no damage in their logs, and all damage that is planted.
HISTORIES ?= 1000

# Kills of `make stream-kills`; the tests have ten.
KILLS ?= 100

# Options of `make stock-tools`: --only brokers runs one part, --kafka VERSION selects the version of the tools.
STOCK ?=

# Seeds within which the simulator must catch each planted bug.
MUTANT_SEEDS ?= 2000
# More for the hunt: --missing hunts those without a recorded hunt, --profiles each in its own profile.
MUTANTS ?=

# Options of `make mutation`: --package raft runs one part, --again judges survivors again.
MUTATION ?= --sample 1000 --seed 1
# Seeds whose branches `make reached` counts.
REACHED_SEEDS ?= 192

# Inputs of `make fuzz` (some minutes); a seed repeats its inputs.
FUZZ_INPUTS ?= 1000000
FUZZ_SEED ?= 1

# The package as `pip install` builds it, with its hot modules compiled. A command after COMPILED imports that build.
COMPILED_READY := build/compiled/.ready
COMPILED := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/compiled:$(CURDIR)
WHY_NO_SPARK := $(PYTHON_BIN)/python -c 'import os; from quorumd.pipeline.spark.java import *; print(why_no_spark(os.environ) or "")'
WHY_NO_STOCK_TOOLS := $(PYTHON_BIN)/python -c 'from tests.interop.stock_tools.__main__ import *; print(why_no_tools() or "")'
WHY_INTERPRETED := $(PYTHON_BIN)/python -c 'from scripts.build_backend import *; print(why_interpreted() or "")'

# Options of `make bench`: --interpreted measures the sources, --short the short form.
BENCH ?=

.PHONY: attack audit-histories bench chaos chaos-reassign check clean client-suites compile fuzz help messages mutants mutation quick reached reassignment-example run setup simulate-interpreted soak standalone stock-tools stream-kills test test-compiled test-sources

help:
	@echo "make run       set up, start a three-node cluster on this machine, run the demo; Ctrl-C stops it"
	@echo "make quick     lint, types, unit and property tests of raft, log, controller and protocol; about a minute"
	@echo "make test      set up, check, and run all tests"
	@echo "make setup     create .venv and install everything into it"
	@echo "make check     ruff, mypy, import contracts, house rules, generated code is up to date"
	@echo "make compile   build the package as pip installs it, hot modules compiled, into build/compiled"
	@echo "make messages  generate quorumd/protocol/messages from schemas/"
	@echo "make soak      simulate SOAK_SEEDS (2000) fresh seeds, and run property tests with fresh examples"
	@echo "make fuzz      feed FUZZ_INPUTS (1000000) malformed inputs to every parser; findings in build/fuzz/"
	@echo "make attack    attack a cluster of real processes in every known way under load; exit code 1 if a bound is violated"
	@echo "make bench     measure the compiled package; results in build/bench/"
	@echo "make chaos     inject faults into a cluster of real processes for 20 minutes; report in build/chaos/"
	@echo "make chaos-reassign  change the voters of five nodes 100 times while they are killed, report in build/chaos-reassign/"
	@echo "make reassignment-example  the worked examples of the replication description on real brokers under load"
	@echo "make audit-histories  audit the logs of HISTORIES (1000) simulated seeds, and plant damage in them"
	@echo "make standalone  compare the pipeline on a Spark master with two workers with a local run"
	@echo "make client-suites  run the integration tests of kafka-python (from PyPI) on a broker of quorumd"
	@echo "make stock-tools  run Kafka's own tools and brokers (from Maven) on quorumd's plans, logs and nodes"
	@echo "make stream-kills  kill -9 streams into Parquet KILLS (100) times, and check that each record is written once"
	@echo "make mutants   plant known bugs, each of which the simulator must catch; table in tests/README.md"
	@echo "make mutation  mutate 1000 places of the code; each mutation must fail a test or a simulated seed"
	@echo "make reached   measure the branches that 192 simulated seeds reach, and list the others"
	@echo "make clean     remove build results, but not .venv"

setup: $(READY)

$(READY): pyproject.toml scripts/setup_venv.sh
	@scripts/setup_venv.sh

run: $(READY)
	@$(PYTHON_BIN)/python scripts/run_demo.py

# Tests without stand-ins inside modules: compiled modules do not notice those.
COMPILED_TESTS := $(addprefix tests/,property scenarios paper shell unit/raft unit/log unit/protocol unit/controller)

# What these test is interpreted in a compiled package, too: commands, pipeline, security, the coordinators of brokers.
NOT_COMPILED_TESTS := $(addprefix tests/property/test_, pipeline_decode.py plan_properties.py authorizer.py \
	classic_group_invariants.py consumer_group_invariants.py replica_invariants.py) \
	$(addprefix tests/shell/test_, bench_command.py cluster_command.py dev_command.py documentation_runs.py \
	plan_by_live_sizes.py plans_executed.py reassignment_example.py status_command.py)

# Not run on the sources, too, where there is a C compiler: they take minutes, and tests of interop and chaos start
# processes of the sources. Files with stand-ins inside modules run on the sources.
ONLY_COMPILED_TESTS := $(filter-out $(NOT_COMPILED_TESTS) $(addprefix tests/shell/test_, \
	topics_and_brokers.py stored_bytes.py tcp_network.py), \
	$(wildcard tests/shell/test_*.py tests/property/test_messages_*.py))

# The compiler uses the time in which tests wait.
test: check
	$(MAKE) --jobs 2 test-sources compile
	test "$(TESTS)" != tests || $(PYTHON_BIN)/python scripts/check_coverage.py
	$(MAKE) --jobs 2 --output-sync=target chaos simulate-interpreted CHAOS_SECONDS=$(TEST_CHAOS_SECONDS)
	@reason="$$($(WHY_INTERPRETED))" || exit 1; \
	if [ -n "$$reason" ]; then echo "left out: the tests of the compiled package; $$reason"; \
	else $(MAKE) test-compiled; fi
	@reason="$$($(WHY_NO_STOCK_TOOLS))" || exit 1; \
	if [ -n "$$reason" ]; then echo "left out: the tests with Kafka's own software; $$reason"; \
	else $(MAKE) stock-tools STOCK=--short; fi

test-sources: $(READY)
	@reason="$$($(WHY_NO_SPARK))" || exit 1; \
	if [ -n "$$reason" ]; then echo "left out: tests/pipeline; $$reason"; without="--ignore=tests/pipeline"; fi; \
	interpreted="$$($(WHY_INTERPRETED))" || exit 1; \
	if [ -z "$$interpreted" ] && [ "$(TESTS)" = tests ]; then \
		without="$$without $(addprefix --ignore=,$(ONLY_COMPILED_TESTS))"; fi; \
	rm -rf build/coverage; \
	set -x; $(PYTHON_BIN)/python -m pytest -p tests.support.branch_coverage $(DISTRIBUTED) $$without $(TESTS)

# Its results do not depend on time: it leaves the processors to a cluster that runs beside it.
simulate-interpreted: $(READY)
	nice -n 10 $(PYTHON_BIN)/quorumd simulate --seed $(FIRST_SEED) --seeds $(INTERPRETED_SEEDS)

# Tests of the pure packages, for the edit loop: without processes, simulator or Spark.
QUICK_TESTS := $(addprefix tests/unit/,raft log controller protocol) $(addprefix tests/property/, \
	test_raft_majority.py test_record_batch_properties.py test_cluster_image.py)

quick: $(READY)
	$(PYTHON_BIN)/ruff check .
	$(PYTHON_BIN)/ruff format --check --quiet .
	$(PYTHON_BIN)/mypy
	$(PYTHON_BIN)/python -m pytest -n 2 --dist loadfile $(QUICK_TESTS)

test-compiled: $(COMPILED_READY)
	$(COMPILED) $(PYTHON_BIN)/python -m quorumd --version
	$(COMPILED) $(PYTHON_BIN)/python -m pytest $(DISTRIBUTED) -m "not stand_in" -o pythonpath= \
		$(addprefix --ignore=,$(NOT_COMPILED_TESTS)) $(COMPILED_TESTS)
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

# As old as the beginning of the build, so that a source that is edited meanwhile is compiled by the next one.
$(COMPILED_READY): $(READY) scripts/build_backend.py $(shell find quorumd -name '*.py')
	rm -rf build/compiled
	mkdir -p build/compiled
	touch $@.began
	nice -n 19 $(PYTHON_BIN)/python -m pip install --quiet --no-deps --no-build-isolation --target build/compiled .
	@reason="$$($(WHY_INTERPRETED))" || exit 1; \
	if [ -n "$$reason" ]; then echo "build/compiled is interpreted: $$reason"; else mv $@.began $@; fi

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

reassignment-example: $(READY)
	@$(PYTHON_BIN)/python scripts/reassignment_example.py

client-suites: $(READY)
	$(PYTHON_BIN)/python -m tests.interop.client_suites

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
