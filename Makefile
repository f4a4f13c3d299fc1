# Works from any folder: make -C <here> <target>. Everything it makes stands
# under .venvs/, .jars/ and .state/ of this folder; `make help` lists targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

ROOT := $(CURDIR)
PYTHON ?= $(shell for p in python3.11 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.11.*/bin/python3.11; do "$$p" -c 'import sys; print(sys._base_executable)' 2>/dev/null && break; done)
UV := .venvs/tools/bin/uv
PY := .venvs/platform/bin/python
SLICEWISE := .venvs/platform/bin/slicewise

# No tool fetches an interpreter, writes an index address into a lock, or talks
# about its own upgrades.
export UV_PYTHON_DOWNLOADS := never
export UV_NO_CONFIG := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pytest keeps the tests that it rewrote as bytecode
unexport PYTHONDONTWRITEBYTECODE
# Several setups at once (one per environment) share one cache; linking fails
# over file systems, copying is quiet.
export UV_LINK_MODE ?= copy
# uv does not read pip's settings: what they say of certificates and the index holds for it too.
ifneq ($(PIP_CERT),)
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
ifneq ($(PIP_INDEX_URL),)
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

# A stamp is named by what it was made from: a changed lock, interpreter or
# folder is a new stamp, and an unchanged one costs nothing.
key = $(firstword $(shell (cat $(1) 2>/dev/null; sed '/^.tool.ruff/,$$d' pyproject.toml; echo "$(ROOT) $(PYTHON)") | cksum))
TOOLS_STAMP    := .venvs/tools/.made-$(call key,requirements/tools.txt)
PLATFORM_STAMP := .venvs/platform/.made-$(call key,requirements/platform.txt)
SPARK_STAMP    := .venvs/spark/.made-$(call key,requirements/spark.txt)
AIRFLOW_STAMP  := .venvs/airflow/.made-$(call key,requirements.txt)
JVM            := include/slicewise/jvm
SPARK_JARS     := .jars/spark/.made-$(call key,$(JVM)/pom.xml)
KAFKA_JARS     := .jars/kafka/.made-$(call key,$(JVM)/pom.xml)
JAVA           := $(shell command -v "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" || echo java)
KAFKA_CLASSES  := .jars/.made-kafka-classes-$(call key,$(JVM)/pom.xml include/slicewise/local/servers/kafka.py $(dir $(realpath $(JAVA)))../release)
READER_SOURCES := $(sort $(wildcard $(JVM)/src/main/java/io/slicewise/*/*.java))
READER_JAR     := .jars/spark/.made-reader-$(call key,$(READER_SOURCES))
OURS           := $(wildcard include dags plugins)
OURS_COMPILED  := .venvs/.compiled-$(call key,$(sort $(shell find $(OURS) -name '*.py' 2>/dev/null)))
OLDEST_STAMP   := .venvs/airflow-oldest/.made-$(call key,requirements/airflow.in requirements/airflow-oldest.in)
FEAST_STAMP    := .venvs/feast/.made-$(call key,requirements/feast.txt)
STAMPS := $(PLATFORM_STAMP) $(SPARK_STAMP) $(AIRFLOW_STAMP) $(SPARK_JARS) $(KAFKA_JARS) $(KAFKA_CLASSES) $(READER_JAR) $(OURS_COMPILED)
LOCKED := $(shell command -v flock >/dev/null && echo "flock .venvs/.setup.lock")

# ---------------------------------------------------------------- people
.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: setup ## set up, start everything, load the real data, check it, and leave it running
	@$(SLICEWISE) run

.PHONY: down
down: ## stop everything that runs, and leave no process
	@if [ -x $(SLICEWISE) ]; then $(SLICEWISE) down; else echo "nothing is set up, so nothing runs"; fi

.PHONY: status
status: ## the truth about each part
	@if [ -x $(SLICEWISE) ]; then $(SLICEWISE) status || true; else echo "nothing is set up: make run"; fi

.PHONY: clean
clean: ## stop everything and forget its state (environments and jars stay)
	@if [ -x $(SLICEWISE) ]; then $(SLICEWISE) clean; fi

# ----------------------------------------------------------------- tests
# A test runs in the environment that carries what it imports: tests/dags in
# Airflow's, folders named spark in Spark's, all others in the
# platform's (tests/conftest.py selects).
PYTEST := -m pytest -p no:cacheprovider
SERVERLESS := tests/unit tests/laws tests/contract tests/architecture tests/simulation tests/drills

# Three workers for two cores: a fifth of their time is waiting.
FAST_JOBS ?= 3

.PHONY: test-fast
test-fast: setup ## what needs no server, but for the longest searches and with fewer examples, in a minute and a half
	@$(PY) $(PYTEST) -p no:schemathesis --hypothesis-profile few -q -n $(FAST_JOBS) --dist loadfile -m "not server and not spark and not airflow and not long" $(wildcard $(SERVERLESS))

# Seeds are new with every run, and told; SIM_SEED begins with one of before.
SIM_SECONDS ?= 180
SIM_LEAST ?= 1000
SIM_SEED ?=

.PHONY: test-sim
test-sim: setup ## random histories of the store's protocol (SIM_SECONDS=180, at least SIM_LEAST=1000; SIM_SEED=1), and every pair of stops
	@$(PY) -m tests.simulation --stops
	@$(PY) -m tests.simulation --seconds $(SIM_SECONDS) --least $(SIM_LEAST) $(SIM_SEED:%=--seed %)

.PHONY: test-nightly
test-nightly: setup ## what no other run has time for: half an hour of new histories, check-full, every fault of test-faults, and test-upgrade
	@failed=; \
	$(MAKE) --no-print-directory test-sim SIM_SECONDS=1800 || failed+=" sim"; \
	$(MAKE) --no-print-directory check-full || failed+=" full"; \
	$(MAKE) --no-print-directory test-faults || failed+=" faults"; \
	$(MAKE) --no-print-directory test-upgrade || failed+=" upgrade"; \
	[ -z "$$failed" ] || { echo "tests failed of:$$failed (their reports stand above)"; exit 1; }

FULL ?=

.PHONY: check-full
check-full: setup ## 15 million values of flights, plays and random histories against a second opinion (options: FULL="--quick --seed 7")
	@$(PY) -m tests.full $(FULL)

# Each drill keeps a line in RECORDS (docs/drills.jsonl); `--table` makes the table of docs/faults.md of them.
FAULTS := tests.drills $(RECORDS:%=--records %)

.PHONY: test-faults
test-faults: setup ## faults on real processes, and answers meanwhile (TIME=1800 seconds, SEED=1, ONLY="kill-tail …", RECORDS=file)
	@$(PY) -m $(FAULTS) $(TIME:%=--time %) $(SEED:%=--seed %) $(ONLY:%=--only %)

.PHONY: test-drills
test-drills: setup ## the quick ones of test-faults, with one kill each (SEED=1)
	@$(PY) -m tests.drills --quick $(SEED:%=--seed %)

# Compiled in a folder that no other make has.
.PHONY: test-java
test-java: setup ## the tests of what runs in the JVM (Maven's plugins are fetched the first time)
	@part=.jars/tests.$$$$.part; trap 'rm -rf "$$part"' EXIT; \
	  $(MVN) -f $(JVM)/pom.xml -Dmade="$(ROOT)/$$part" test 2>&1 \
	    | sed -n '$(PLAIN);/^\[INFO\] Tests run:/p;/^\[INFO\]/!p'

# Files run side by side, each with servers of its own: much of a run is waiting for them. JOBS=1 runs one after another.
JOBS ?= 2
SIDE_BY_SIDE := -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations 20

# A mark whose tests another command of the same run plays: LEFT=replayed, where test-sim SIM_SEED=0 follows.
LEFT ?=
LEAVING := $(LEFT:%=-m "not %")

# Java's tests run beside those of DAGs, each on a core, and are shown behind them.
.PHONY: test
test: setup ## the whole suite, two files at a time (JOBS=1: one); starts and stops the servers that it needs
	@failed=; \
	java=$$(mktemp); trap 'rm -f "$$java"' EXIT; \
	$(MAKE) --no-print-directory test-java >"$$java" 2>&1 & \
	.venvs/airflow/bin/python $(PYTEST) tests || failed+=" airflow"; \
	wait $$! || failed+=" java"; cat "$$java"; \
	$(PY) $(PYTEST) $(SIDE_BY_SIDE) $(LEAVING) tests || failed+=" platform"; \
	.venvs/spark/bin/python $(PYTEST) $(SIDE_BY_SIDE) tests || failed+=" spark"; \
	$(MAKE) --no-print-directory test-drills || failed+=" drills"; \
	[ -z "$$failed" ] || { echo "tests failed of:$$failed (their reports stand above)"; exit 1; }

# Part of `make test` too; here it says on which interpreters.
.PHONY: test-package
test-package: setup ## the wheel alone in clean environments, on each of Python 3.11 to 3.13 that is here: base and client
	@$(PY) $(PYTEST) -q --durations 3 tests/package

# command:package, of all that tests/cluster needs and no environment carries
PACKAGES := promtool:prometheus amtool:prometheus-alertmanager

# No Debian package has it: built from the sources of the version that docker-compose.yaml names.
STATSD := $(shell sed -n 's|.*image: prom/statsd-exporter:||p' docker-compose.yaml 2>/dev/null)
STATSD_STAMP := .venvs/go/.made-statsd_exporter-$(STATSD)
$(STATSD_STAMP):
	@command -v go >/dev/null || { echo "test-cluster builds statsd_exporter $(STATSD): it needs Go 1.22 or newer on PATH"; exit 1; }
	@mkdir -p .venvs/go
	@GOBIN=$(ROOT)/.venvs/go go install github.com/prometheus/statsd_exporter@$(STATSD)
	@touch $@

.PHONY: test-cluster
test-cluster: setup $(STATSD_STAMP) ## what only their own tools can tell of the production set-up: rules, routes and dashboard by Prometheus, Airflow's metrics by the exporter (root: installs Debian's packages; Go builds the exporter)
	@bash requirements/packages.sh $(PACKAGES)
	@$(PY) $(PYTEST) tests/cluster

.PHONY: test-upgrade
test-upgrade: setup $(OLDEST_STAMP) ## a platform on the oldest Airflow that we name goes on with ours (installs that version: 300 MB)
	@$(PY) $(PYTEST) -q -s tests/upgrade

# --------------------------------------------------------------- figures
.PHONY: bench
bench: setup ## measure against the usual recipe (options: BENCH="--seconds 30 --json file")
	@$(PY) -m benchmarks $(BENCH)

.PHONY: bench-fast
bench-fast: setup ## the same with small sizes: that it works, not how fast
	@$(PY) -m benchmarks --quick $(BENCH)

.PHONY: bench-accuracy
bench-accuracy: setup ## measured against declared error of every approximate aggregate (options: BENCH="--quick --json file")
	@$(PY) -m benchmarks.accuracy $(BENCH)

.PHONY: bench-levels
bench-levels: setup ## reads of a 30-day window beside those of a 1-day window (options: BENCH="--only distinct --json file")
	@$(PY) -m benchmarks.levels $(BENCH)

.PHONY: bench-aggregates
bench-aggregates: setup ## rows a second of every aggregate, beside DuckDB, pandas and polars (options: BENCH="--only sum")
	@$(PY) -m benchmarks.columns $(BENCH)

.PHONY: bench-evaluate
bench-evaluate: setup ## how long a unit test waits for sw.evaluate (options: BENCH="--events 10000 --json file")
	@$(PY) -m benchmarks.evaluate $(BENCH)

.PHONY: bench-freshness
bench-freshness: setup ## how soon an event is in an answer: real-time lane, micro-batch lane alone, usual recipe (options: BENCH="--seconds 60 --rates 2000", --away, --hot)
	@$(PY) -m benchmarks.freshness $(BENCH)

.PHONY: bench-pending-reads
bench-pending-reads: setup ## what a read costs whose entity has 0 to 10,000 pending events (options: BENCH="--seconds 5 --json file")
	@$(PY) -m benchmarks.pending_reads $(BENCH)

.PHONY: bench-reads
bench-reads: setup $(FEAST_STAMP) ## reads of the shipped example, of narrow and of wide views, beside the usual recipe and Feast (options: BENCH="--seconds 5 --json file")
	@$(PY) -m benchmarks.serving $(BENCH)

.PHONY: bench-request-log
bench-request-log: setup ## answers that are logged, beside the same that are not (options: BENCH="--seconds 2 --json file")
	@$(PY) -m benchmarks.request_log $(BENCH)

.PHONY: bench-reader
bench-reader: setup ## what a record costs whose source had other schemas before (options: BENCH="--records 100000 --json file")
	@.venvs/spark/bin/python -m benchmarks.reader $(BENCH)

.PHONY: bench-ingest
bench-ingest: setup ## a backlog from Kafka into the store, by entities, views and partitions (options: BENCH="--only base --json file")
	@$(PY) -m benchmarks.ingest $(BENCH)

.PHONY: bench-rebuild
bench-rebuild: setup ## an emptied store built again, beside the replay from the log (options: BENCH="--users 100 --json file")
	@$(PY) -m benchmarks.rebuild $(BENCH)

.PHONY: bench-build
bench-build: setup ## live freshness while a version is built: without a build, unthrottled, throttled (options: BENCH="--users 100 --json file")
	@$(PY) -m benchmarks.build $(BENCH)

.PHONY: bench-compaction
bench-compaction: setup ## many hours compacted in one application, beside Spark's own groupBy (options: BENCH="--quick --json file")
	@$(PY) -m benchmarks.compaction $(BENCH)

.PHONY: bench-check
bench-check: setup ## the platform's own check: its start, and its cost a value by entities and columns (options: BENCH="--quick --json file")
	@$(PY) -m benchmarks.check $(BENCH)

.PHONY: bench-run
bench-run: setup ## what a newcomer waits for: make run from nothing, step by step, and once more (options: BENCH="--share 0.06 --json file")
	@$(PY) -m benchmarks.cold_run $(BENCH)

.PHONY: bench-idle
bench-idle: setup ## what a platform takes that nobody sends an event, by process (options: BENCH="--minutes 2 --calm 60 --json file")
	@$(PY) -m benchmarks.idle $(BENCH)

.PHONY: bench-surge
bench-surge: setup ## ten times the usual rate, an hour's backlog, more requests than can be answered (options: BENCH="--quick")
	@$(PY) -m benchmarks.surge $(BENCH)

.PHONY: bench-kept
bench-kept: setup ## what three pieces of own code give beside the same without them (options: BENCH="--only loop --turns 3 --json file")
	@$(PY) -m benchmarks.kept $(BENCH)

.PHONY: bench-training
bench-training: setup ## a training set of 1 to 10 million events beside DuckDB, by event time and by token (options: BENCH="--quick --json file")
	@$(PY) -m benchmarks.training $(BENCH)

.PHONY: show-backtest
show-backtest: setup ## a model of flights' delays and a newer one, judged on what the first answered, in eleven minutes (options: BENCH="--quick --json file")
	@$(PY) -m benchmarks.backtest $(BENCH)

.PHONY: bench-leaderboard
bench-leaderboard: setup ## the age of a leaderboard under 20,000 plays/s (options: BENCH="--rate 2000 --seconds 10 --late correct")
	@$(PY) -m benchmarks.leaderboard $(BENCH)

.PHONY: bench-emission
bench-emission: setup ## a million entities published every ten seconds (options: BENCH="--entities 10000 --json file")
	@$(PY) -m benchmarks.emission $(BENCH)

# A platform of its own, with an hour and a half of the past; SLICEWISE_STATE leads to it.
UI := SLICEWISE_STATE=$(ROOT)/.state-ui SLICEWISE_REPLAY_SHARE=0.06

.PHONY: test-ui
test-ui: setup ## the pages in a real browser; needs chromium (apt-get install chromium) and Node (PICTURES=1: as `make pictures` does)
	@command -v chromium chromium-browser google-chrome >/dev/null || { echo "test-ui needs a browser: apt-get install chromium"; exit 1; }
	@trap '$(UI) $(SLICEWISE) clean' EXIT; $(UI) $(SLICEWISE) run \
	  && $(UI) $(MAKE) --no-print-directory $(if $(PICTURES),pictures,pages) && $(UI) node --test $(TRIGGERS)

# Tests that change what runs come last, and never before pictures.
TRIGGERS := tests/ui/triggers.test.mjs
LOOKS = $(filter-out $(TRIGGERS),$(sort $(wildcard tests/ui/*.test.mjs)))

.PHONY: pages
pages: setup
	@npm ci --prefix tests/ui --no-audit --no-fund --silent
	@node --test --test-concurrency=1 $(LOOKS)

.PHONY: pictures
pictures: setup ## make the screenshots and the outputs of two guides anew, from the platform that runs
	@PICTURES=1 $(MAKE) --no-print-directory pages
	@$(PY) docs/render.py docs/guides/local.md docs/guides/definitions.md

.PHONY: lint
lint: setup ## ruff and mypy strict
	@.venvs/platform/bin/ruff check .
	@.venvs/platform/bin/ruff format --check .
	@.venvs/platform/bin/mypy include tests $(wildcard spark_jobs benchmarks dags plugins)

.PHONY: format
format: setup ## let ruff write the layout
	@.venvs/platform/bin/ruff format .
	@.venvs/platform/bin/ruff check --fix .

# ----------------------------------------------------------------- set-up
.PHONY: check
check: ## is everything here that set-up needs
	@PYTHON="$(PYTHON)" bash requirements/check.sh

.PHONY: setup
setup: ## the locked environments and jars (nothing to do if they stand)
	@if ! ls $(TOOLS_STAMP) $(STAMPS) >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory check; \
	  mkdir -p .venvs .jars; \
	  start=$$SECONDS; \
	  $(LOCKED) $(MAKE) -s --no-print-directory $(TOOLS_STAMP); \
	  $(LOCKED) $(MAKE) -s --no-print-directory -j5 stamps; \
	  echo "set up in $$((SECONDS - start)) s"; \
	fi

.PHONY: stamps
stamps: $(STAMPS)

$(TOOLS_STAMP):
	@echo "setup: tools"
	@rm -rf .venvs/tools
	@"$(PYTHON)" -m venv .venvs/tools
	@.venvs/tools/bin/python -m pip install -q --require-hashes --no-deps -r requirements/tools.txt
	@touch $@

# $(1) environment, $(2) its lock
define environment
	@echo "setup: $(1) environment"
	@rm -f .venvs/$(1)/.made-*
	@# scripts name their folder and interpreter: where either changed, nothing is kept
	@echo "$(ROOT) $(PYTHON)" | cmp -s - .venvs/$(1)/.place || rm -rf .venvs/$(1)
	@$(UV) venv -q --allow-existing --python "$(PYTHON)" .venvs/$(1)
	@echo "$(ROOT) $(PYTHON)" > .venvs/$(1)/.place
	@$(UV) pip sync -q --python .venvs/$(1)/bin/python --require-hashes $(2)
	@$(UV) pip install -q --python .venvs/$(1)/bin/python --no-deps --no-build-isolation -e .
	@.venvs/$(1)/bin/python requirements/bytecode.py installed
	@touch $@
	@echo "setup: $(1) environment stands"
endef

$(PLATFORM_STAMP): $(TOOLS_STAMP)
	$(call environment,platform,requirements/platform.txt)

$(SPARK_STAMP): $(TOOLS_STAMP)
	$(call environment,spark,requirements/spark.txt)

$(AIRFLOW_STAMP): $(TOOLS_STAMP)
	$(call environment,airflow,requirements.txt)

# No lock of its own: it is the oldest version with whatever goes with it today.
$(OLDEST_STAMP): $(TOOLS_STAMP)
	@echo "setup: the oldest Airflow"
	@rm -rf .venvs/airflow-oldest
	@$(UV) venv -q --python "$(PYTHON)" .venvs/airflow-oldest
	@$(UV) pip install -q --python .venvs/airflow-oldest/bin/python --override requirements/airflow-oldest.in -r requirements/airflow.in
	@$(UV) pip install -q --python .venvs/airflow-oldest/bin/python --no-deps --no-build-isolation -e .
	@touch $@

# Not ours: no slicewise, and no part of `make setup`.
$(FEAST_STAMP): $(TOOLS_STAMP)
	@echo "setup: Feast's environment"
	@rm -rf .venvs/feast
	@$(UV) venv -q --python "$(PYTHON)" .venvs/feast
	@$(UV) pip sync -q --python .venvs/feast/bin/python --require-hashes requirements/feast.txt
	@touch $@

# One compiled form for all three: they have the same Python.
$(OURS_COMPILED): $(PLATFORM_STAMP)
	@rm -f .venvs/.compiled-*
	@$(PY) requirements/bytecode.py ours $(OURS)
	@touch $@

MVN := mvn -B -Dstyle.color=never
# Maven's colours, of which it writes some whatever it is told
PLAIN := s/\x1b\[[0-9;]*m//g

# $(1) folder, $(2) the profile that lists them
define jars
	@echo "setup: jars for $(1)"
	@rm -rf .jars/$(1) .jars/$(1).part
	@$(MVN) -q -f $(JVM)/pom.xml -P $(2) dependency:copy-dependencies -DincludeScope=runtime \
	  -DoutputDirectory="$(ROOT)/.jars/$(1).part" 2>&1 | sed '$(PLAIN)'
	@mv .jars/$(1).part .jars/$(1)
	@touch $@
endef

$(SPARK_JARS):
	$(call jars,spark,spark)

$(KAFKA_JARS):
	$(call jars,kafka,broker)

# Java's `release` names its version: the archive of one is of no use to another (docs/adr/0118).
$(KAFKA_CLASSES): $(KAFKA_JARS) | $(PLATFORM_STAMP)
	@rm -f .jars/.made-kafka-classes-*
	@$(PY) requirements/broker_classes.py
	@touch $@

# Compiled as $(JVM)/pom.xml does (docs/adr/0080 says why not by it), against what pyspark carries, in a folder that no
# other make has, and moved into place whole: a JVM may have the old one open.
PYSPARK_JARS := .venvs/spark/lib/python3.11/site-packages/pyspark/jars
$(READER_JAR): $(SPARK_JARS) $(SPARK_STAMP)
	@echo "setup: the record reader"
	@rm -f .jars/spark/.made-reader-*
	@part=.jars/reader.$$$$.part; trap 'rm -rf "$$part"' EXIT; jdk="$${JAVA_HOME:+$$JAVA_HOME/bin/}"; \
	  "$${jdk}javac" --release 17 -Xlint:all,-path -Werror -proc:none -encoding UTF-8 \
	    -cp "$(PYSPARK_JARS)/*:$$(echo .jars/spark/{kafka-clients,msgpack-core}-*.jar | tr " " :)" -d "$$part/classes" $(READER_SOURCES); \
	  "$${jdk}jar" --create --file "$$part/slicewise-spark.jar" -C "$$part/classes" .; \
	  mv "$$part/slicewise-spark.jar" .jars/spark/slicewise-spark.jar
	@touch $@

# ------------------------------------------------------------------ locks
# Hashes, no index addresses. Pins that stand are kept; UPGRADE=1 renews them.
COMPILE = $(UV) pip compile -q --python "$(PYTHON)" --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-header $(if $(UPGRADE),--upgrade)

.PHONY: lock
lock: $(TOOLS_STAMP) ## resolve requirements/*.in again (UPGRADE=1 takes newer versions)
	@$(COMPILE) requirements/tools.in -o requirements/tools.txt
	@$(COMPILE) requirements/platform.in -o requirements/platform.txt
	@$(COMPILE) requirements/spark.in -c requirements/platform.txt -o requirements/spark.txt
	@$(COMPILE) requirements/airflow.in -o requirements.txt
	@$(COMPILE) requirements/feast.in -o requirements/feast.txt
	@for lock in requirements.txt requirements/platform.txt requirements/spark.txt requirements/tools.txt requirements/feast.txt; do \
	  { sed -n '/^# /p;/^$$/q' requirements/lock-header.txt | sed "s|@LOCK@|$$lock|"; cat $$lock; } > $$lock.part; \
	  mv $$lock.part $$lock; \
	done
