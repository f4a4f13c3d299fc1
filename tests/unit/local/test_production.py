"""docker-compose.yaml and Dockerfile run what the embedded platform runs, with the same
settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from slicewise.lifecycle.health.alerts import RANKS, VARIABLES
from slicewise.local.servers import airflow as airflow_server
from slicewise.local.servers import kafka as kafka_broker
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers import services
from slicewise.local.servers.state import StateFolder
from slicewise.probes.figures import Metrics
from slicewise.serving.metrics import Metrics as ServingMetrics
from slicewise.serving.platform_metrics import PlatformMetrics
from slicewise.settings import Settings
from slicewise.spark.runtime.status_sinks import Metrics as StreamMetrics

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / ".venvs" / "platform" / "bin"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
SERVICES: Mapping[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"SLICEWISE_STATE": str(tmp_path)})


@pytest.fixture
def state(settings: Settings) -> StateFolder:
    folder = StateFolder(settings.state_dir)
    folder.create()
    return folder


def environment(service: str) -> dict[str, str]:
    return dict(SERVICES[service].get("environment", {}))


# ------------------------------------------------------------------- both lint
def test_the_dockerfile_lints() -> None:
    _lint(TOOLS / "hadolint", "--config", ROOT / ".hadolint.yaml", ROOT / "Dockerfile")


def test_the_yaml_lints() -> None:
    _lint(
        TOOLS / "yamllint", "--strict", "-c", ROOT / ".yamllint.yaml", ROOT / "docker-compose.yaml"
    )


def _lint(*command: object) -> None:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# ------------------------------------------------------------ what must be there
def test_every_part_of_the_platform_has_its_service() -> None:
    airflow = {
        f"airflow-{part}"
        for part in ("init", "api-server", "scheduler", "dag-processor", "triggerer")
    }
    stores = {"redis", "kafka", "postgres", "storage"}
    monitoring = {"prometheus", "alertmanager", "grafana", "statsd-exporter"}
    assert airflow | stores | {"spark-master", "spark-worker", "serving"} | monitoring <= set(
        SERVICES
    )
    # stream and replay run on demand, as children of Airflow's tasks or of a person
    embedded = {name for name in services.NAMES if name not in services.ON_DEMAND}
    covered = {
        name for name in embedded if any(service.split("-")[0] == name for service in SERVICES)
    }
    assert covered == embedded


def test_images_are_pinned_and_start_with_what_they_need() -> None:
    for name, service in SERVICES.items():
        tag = service["image"].rpartition(":")[2]
        assert re.search(r"\d+\.\d+|RELEASE\.\d{4}-\d\d-\d\d", tag), f"{name}: {service['image']}"
        for needed in service.get("depends_on", {}):
            assert needed in SERVICES
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)[0].startswith("python:3.11.")


def test_what_waits_for_health_waits_for_a_service_that_shows_it() -> None:
    for name, service in SERVICES.items():
        for needed, condition in service.get("depends_on", {}).items():
            if condition["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], f"{name} waits for {needed}"


def test_ports_are_open_to_this_machine_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(str(port).startswith("127.0.0.1:") for port in published)


def test_no_secret_has_a_value_in_the_files() -> None:
    secret = re.compile(r"PASSWORD$|SECRET|FERNET|_ACCESS_KEY$")
    for name in SERVICES:
        for key, value in environment(name).items():
            if secret.search(key):
                assert re.fullmatch(r"\$\{\w+:\?\}", str(value)), f"{name}: {key}"
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    named = set(
        re.findall(r"\$\{(\w+):\?\}", (ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
    )
    assert set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == named


# -------------------------------------------------------- the same as embedded
def test_every_setting_that_is_named_exists() -> None:
    variables = {
        "SLICEWISE_STATE",
        "SLICEWISE_PROJECT",
        "SLICEWISE_AIRFLOW_USER",
        "SLICEWISE_AIRFLOW_PASSWORD",
    }
    variables |= {f"SLICEWISE_{field.name.upper()}" for field in fields(Settings)} | {
        "SLICEWISE_REDIS_PASSWORD"
    }
    variables |= {name for name, _ in VARIABLES}
    named = {key for name in SERVICES for key in environment(name) if key.startswith("SLICEWISE_")}
    assert named <= variables


def test_the_settings_load() -> None:
    given = {
        k: re.sub(r"\$\{\w+:\?\}", "word", str(v))
        for k, v in environment("airflow-scheduler").items()
    }
    # where nothing is set
    given = {k: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", v) for k, v in given.items()}
    loaded = Settings.load(given)
    assert loaded.catalog_jdbc_uri == "jdbc:postgresql://postgres:5432/catalog"
    assert loaded.spark_master == "spark://spark-master:7077"
    assert loaded.runbook_url == "http://localhost:8080/slicewise"


def test_redis_keeps_what_the_embedded_one_keeps(settings: Settings, state: StateFolder) -> None:
    redis_server.service(settings, state, 1).prepare()
    written = (state.path / "redis" / "redis.conf").read_text()
    embedded = dict(line.split(" ", 1) for line in written.splitlines())
    command = SERVICES["redis"]["command"]
    composed = {
        key[2:]: value or '""' for key, value in zip(command[1::2], command[2::2], strict=True)
    }
    local = {"bind", "port", "dir", "aclfile", "daemonize", "set-proc-title"}
    assert {k: v for k, v in composed.items() if k != "aclfile"} == {
        k: v for k, v in embedded.items() if k not in local
    }


def test_no_user_of_the_platform_may_empty_the_store(
    settings: Settings, state: StateFolder
) -> None:
    redis_server.service(settings, state, 1).prepare()
    embedded = (state.path / "redis" / "users.acl").read_text().splitlines()[0].split()
    composed = COMPOSE["configs"]["redis-users"]["content"].split()
    assert [word for word in composed if not word.startswith(">")] == [
        word for word in embedded if word != "nopass"
    ]


def test_the_broker_keeps_what_the_embedded_one_keeps(
    settings: Settings, state: StateFolder
) -> None:
    folder = state.path / "kafka"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "meta.properties").touch()  # formatted already
    kafka_broker.service(settings, state, 1, 2).prepare()
    embedded = dict(
        line.split("=", 1) for line in (folder / "server.properties").read_text().splitlines()
    )
    composed = {
        key.removeprefix("KAFKA_").lower().replace("_", "."): value
        for key, value in environment("kafka").items()
        if key.startswith("KAFKA_")
    }
    # what may be set has the setting's own default
    composed = {key: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value) for key, value in composed.items()}
    assert "SLICEWISE_KAFKA_RETENTION_MS:-" in environment("kafka")["KAFKA_LOG_RETENTION_MS"]
    hosts_and_folders = {
        "controller.quorum.voters",
        "listeners",
        "advertised.listeners",
        "log.dirs",
    }
    # sizes and waits of a small machine
    small = {
        "log.cleaner.dedupe.buffer.size",
        "offsets.topic.num.partitions",
        "transaction.state.log.num.partitions",
        "group.initial.rebalance.delay.ms",
        "broker.session.timeout.ms",
        "broker.heartbeat.interval.ms",
    }
    assert {k: v for k, v in composed.items() if k not in hosts_and_folders} == {
        k: v for k, v in embedded.items() if k not in hosts_and_folders | small
    }


def test_prometheus_asks_everything_that_serves_metrics_where_it_serves_them() -> None:
    scraped = {
        target
        for job in yaml.safe_load(COMPOSE["configs"]["prometheus"]["content"])["scrape_configs"]
        for static_config in job["static_configs"]
        for target in static_config["targets"]
    }
    # the drivers are children of the task that ensures them, in the container that runs tasks
    parts = ("stream", "emit", "realtime", "probes")
    names = [f"SLICEWISE_{part.upper()}_METRICS" for part in parts]
    drivers = Settings.load({name: environment("airflow-scheduler")[name] for name in names})
    driven = set()
    for address in (getattr(drivers, f"{part}_metrics") for part in parts):
        host, _, port = address.rpartition(":")
        assert host == "0.0.0.0", "a container's own loopback is nobody else's"
        assert int(port) > 0, "Prometheus cannot know a port that changes"
        driven.add(f"airflow-scheduler:{port}")
    assert len(driven) == len(parts)
    serving = environment("serving")["SLICEWISE_SERVING_URL"].rpartition(":")[2]
    airflow = environment("airflow-scheduler")
    [listens, serves] = SERVICES["statsd-exporter"]["command"]
    assert airflow["AIRFLOW__METRICS__STATSD_HOST"] == "statsd-exporter"
    assert listens == f"--statsd.listen-udp=:{airflow['AIRFLOW__METRICS__STATSD_PORT']}"
    exported = f"statsd-exporter:{serves.rpartition(':')[2]}"
    assert scraped == {f"serving:{serving}", *driven, exported}
    assert {target.partition(":")[0] for target in scraped} <= set(SERVICES)


def test_alerts_ask_for_series_that_there_are_and_lead_to_the_runbook() -> None:
    mounted = [config["source"] for config in SERVICES["prometheus"]["configs"]]
    assert "prometheus-rules" in mounted
    assert yaml.safe_load(COMPOSE["configs"]["prometheus"]["content"])["rule_files"] == [
        "/etc/prometheus/rules.yml"
    ]
    groups = yaml.safe_load(COMPOSE["configs"]["prometheus-rules"]["content"])["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["labels"]["severity"] for rule in rules} <= set(RANKS)
    series = {name for rule in rules for name in re.findall(r"slicewise_\w+", rule["expr"])}
    # of labelled series nothing is collected before the first: the names of families are known
    families = [
        family
        for metrics in (Metrics, ServingMetrics, StreamMetrics)
        for family in metrics().registry.collect()
    ]
    served = {sample.name for family in families for sample in family.samples}
    served |= {f"{family.name}_total" for family in families if family.type == "counter"}
    served |= {family.name for family in PlatformMetrics().describe()}
    assert series
    assert series <= served
    headings = re.findall(
        r"^##+ (.+)$", (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    # absolute, wherever the documentation is read; the name of the setting is the same for
    # Airflow's alerts
    root = environment("airflow-scheduler")["SLICEWISE_RUNBOOK_BASE"]
    assert re.fullmatch(r"\$\{SLICEWISE_RUNBOOK_BASE:-https?://.+\}", root)
    links = {rule["annotations"]["runbook"] for rule in rules}
    assert links <= {f"{root}/docs/runbook.md#{anchor}" for anchor in anchors}


def test_the_log_is_kept_for_a_bounded_time_that_fits_the_longest_stop(settings: Settings) -> None:
    assert settings.kafka_retention_ms == 30 * 24 * 3_600_000


def test_the_broker_is_the_version_that_maven_fetches() -> None:
    tree = ElementTree.parse(ROOT / "include/slicewise/jvm/pom.xml")
    text = ElementTree.tostring(tree.getroot(), encoding="unicode")
    assert SERVICES["kafka"]["image"].rpartition(":")[2] in text


def test_airflow_runs_under_the_variables_of_the_embedded_one(
    settings: Settings, state: StateFolder
) -> None:
    embedded = airflow_server.environment(settings, state, 1)
    composed = environment("airflow-scheduler")
    only_embedded = {
        "PATH",
        "NO_COLOR",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS",  # here people sign in
    }
    assert set(embedded) - set(composed) <= only_embedded
    same = (
        "CORE__AUTH_MANAGER CORE__EXECUTOR CORE__PARALLELISM CORE__LOAD_EXAMPLES API__WORKERS "
        "USAGE_DATA_COLLECTION__ENABLED"
    )
    for name in same.split():
        assert composed[f"AIRFLOW__{name}"] == embedded[f"AIRFLOW__{name}"], name
    for folder in ("DAGS", "PLUGINS"):
        key = f"AIRFLOW__CORE__{folder}_FOLDER"
        assert Path(composed[key]).name == Path(embedded[key]).name


def test_serving_runs_the_command_of_the_embedded_one(settings: Settings) -> None:
    platform = services.build(settings, services.chooser({}), env={})
    assert SERVICES["serving"]["command"][1:] == list(platform.services["serving"].argv[1:])


def test_programs_of_the_image_stand_where_the_settings_look() -> None:
    home = Path("/opt/slicewise")
    assert f"WORKDIR {home}" in DOCKERFILE
    commands = [
        word
        for service in SERVICES.values()
        for word in service.get("command", ())
        if ".venvs" in word
    ]
    kinds = {Path(word).relative_to(home).parts[1] for word in commands}
    assert kinds == {"platform", "spark"}


def test_the_scripts_of_set_up_run_before_an_image_has_our_sources(tmp_path: Path) -> None:
    before, setup, _ = DOCKERFILE.partition("RUN make setup")
    assert setup
    for words in re.findall(r"^COPY (?!--)(.+)$", before, re.MULTILINE):
        *sources, target = words.split()
        for source in sources:
            into = tmp_path / target / (Path(source).name if target.endswith("/") else "")
            into.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile
            copy(ROOT / source, into)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    scripts = set(re.findall(r"\$\(PY\) (requirements/\w+\.py)(?! ours)", makefile))
    assert "requirements/broker_classes.py" in scripts
    for script in scripts:
        done = subprocess.run(
            [TOOLS / "python", script],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path / "include"), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
