"""One settings object drives the embedded default and production alike, and never shows a secret.

Precedence of every value: the environment, then what the supervisor wrote into
`<state_dir>/endpoints.json`, then a default. Needs the standard library only, since every
environment (Airflow's too) reads its settings here.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from slicewise.errors import SettingsError

ENDPOINTS = "endpoints.json"
PROJECT_FILE = "slicewise.toml"
MAINTENANCE_FILE = "maintenance.toml"
SNAPSHOTS_FILE = "snapshots.toml"
MONITORS_FILE = "monitors.toml"
MODELS_FILE = "models.toml"
MAINTENANCE_MOST = 100_000
"""Most of any of its bounds: 270 years, or files of 100 GiB. Dates and Iceberg's numbers end beyond
it."""
DEFAULT_RETENTION_MS = 30 * 24 * 3_600_000
"""Thirty days: longer than anybody leaves a platform down on purpose, and bounded, as disks are."""
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]*")
MOST_NODES = 64
"""Most nodes of the online store."""
MOST_BEHIND_S = 1_800
"""Largest bound for models beside the live one: sources of predictions take an hour of lateness."""
_BETWEEN_URLS = re.compile(r",(?![^/]*@)")  # a password may have commas


@dataclass(frozen=True, repr=False)
class Settings:
    """Settings of the platform. Each field is the variable SLICEWISE_<FIELD> of the environment
    (state_dir and project_dir: SLICEWISE_STATE and SLICEWISE_PROJECT)."""

    home: Path
    """Folder that holds dags/, plugins/, spark_jobs/, .venvs/ and .jars/."""
    state_dir: Path
    """All that the embedded servers keep."""
    project_dir: Path
    """The user's project: the folder of slicewise.toml."""
    definitions: Path
    """The Python file with the project's definitions (slicewise.toml: `definitions`)."""

    redis_url: str
    """Address of the online store; of several nodes their addresses, separated by commas, always in
    the same order."""
    kafka_bootstrap: str
    catalog_name: str
    """The same for the JVM and PyIceberg, else they do not see each other's tables."""
    catalog_uri: str
    """Address as SQLAlchemy writes it; catalog_jdbc_uri is the same for the JVM."""
    warehouse: str
    serving_url: str
    airflow_url: str
    runbook_base: str
    """Address below which docs/runbook.md can be read, as of a repository's page; empty: Airflow's
    page Slicewise."""

    serving_at_once: int
    """Requests that a process of the API has in work together (larger ones count as several);
    others wait."""
    serving_wait_ms: int
    """Longest that a request waits for its work to begin; then it is refused with 503
    (docs/adr/0061)."""
    serving_waiting: int
    """Most requests that wait in a process of the API; what comes beyond them is refused at
    once."""
    serving_timeout_ms: int
    """Longest that a request is in work; what the store has not answered by then fails with 503."""
    serving_client_header: str
    """Header in which a gateway names the client; without one a client is its address."""

    training_sets_bytes: int
    """Largest spine that a client may upload for a training set (docs/guides/training.md)."""
    training_sets_waiting: int
    """Most training sets of the API that wait for the one that is built; more are refused with
    503."""
    training_sets_per_client: int
    """Most training sets of one client that wait or are built; more are refused with 429."""
    training_sets_keep_h: int
    """Hours for which the API keeps a training set that is done, failed or cancelled."""
    training_sets_namespaces: str
    """Namespaces of the catalog, separated by commas, whose tables a client of the API may name as
    a spine; empty: none."""

    microbatch_interval_ms: int
    """Least time between the starts of two micro-batches of the stream."""
    max_events_per_batch: int
    """Most events of one micro-batch over all partitions of a source. A lane that is behind takes
    batches of up to so many, as far as each stays short (docs/adr/0088)."""
    stream_metrics: str
    """host:port where the stream's driver serves its metrics to Prometheus; port 0: any that is
    free."""

    emit_metrics: str
    """host:port where the emission's driver serves its metrics to Prometheus; port 0: any that is
    free."""

    realtime: str
    """on: a second query per source makes events visible in milliseconds (docs/adr/0050); off: the
    micro-batch lane alone does, as over several nodes of the store."""
    realtime_fields: int
    """Most events of one entity and view that wait among the pending events for the micro-batch
    lane; beyond it they are skipped, never lost."""
    realtime_ahead: int
    """Most offsets that the real-time lane runs ahead of what is applied, per partition; there it
    waits."""
    realtime_start_lag: int
    """The real-time lane begins once the micro-batch lane is within so many events of the end of a
    source's log."""
    realtime_batch_s: int
    """For how long a query of the real-time lane runs until the next one relieves it, in seconds:
    no event waits for that. Where a cluster has no slots for two at a time, the length of its
    batches; between those events wait for a moment."""
    realtime_microbatch_interval_ms: int
    """microbatch_interval_ms while the real-time lane is on: nobody waits for the micro-batch lane
    then, and larger batches cost less."""
    realtime_metrics: str
    """host:port where the real-time lane's driver serves its metrics to Prometheus; port 0: any
    that is free."""

    probes: str
    """on: events of the platform's own go all the way to an HTTP answer, one a second
    (docs/adr/0052); off: none do."""
    probe_limit_ms: int
    """An alert is raised where probes of the last minutes were later than this (p99), or one still
    waits for longer."""
    lag_limit_s: int
    """An alert is raised where the micro-batch lane is further behind than so many seconds at its
    rate, and for two minutes does not get nearer."""
    fresh_within_ms: str
    """Milliseconds from Kafka to an answer, by view or source, as `per_card=2000,payments=10000`:
    its owner is alerted where the events of a minute (p99) take longer."""
    build_freshness_ms: int
    """A build of a view's history gives way while live events come into answers later than this
    (p99 of a minute), as long as other views answer (docs/adr/0132); 0: never."""
    alert_again_s: int
    """Seconds after which an incident that lasts pages again."""
    probes_metrics: str
    """host:port where the prober serves its metrics to Prometheus; port 0: any that is free."""

    bad_percent: int
    """An alert is raised where more than so many percent of the records that an archive brought are
    bad."""

    maintenance: Path
    """The TOML file with the policies of maintenance per table (docs/guides/operating.md); without
    it every table has the defaults."""
    snapshots: Path
    """The TOML file with snapshots that are taken on a schedule (docs/guides/training.md)."""
    monitors: Path
    """The TOML file with features that are held within bounds (docs/guides/requests.md)."""
    models: Path
    """The TOML file with models that are trained and judged (docs/guides/models.md)."""
    models_folder: Path
    """Folder of the versions of models that slicewise trains (docs/guides/models.md)."""
    shadow_behind_s: int
    """A model that answers beside the live one skips logged answers where it is further behind than
    so many seconds, at most 1800 (docs/guides/shadow.md)."""
    shadow_metrics: str
    """host:port where `slicewise shadow` serves its metrics to Prometheus; port 0: any that is
    free."""
    lineage_url: str
    """Address of a receiver of OpenLineage events, which Airflow and the jobs tell what they read
    and write (docs/adr/0107); empty: nobody is told."""
    lineage_namespace: str
    """Namespace of the platform's jobs at the receiver."""

    watch: str
    """on: a small process starts embedded servers again that die (docs/adr/0071); off:
    `slicewise up` does."""

    redis_maxmemory: str
    """Memory as Redis writes it: 2gb; of each node."""
    store_nodes: int
    """Embedded servers that are the nodes of the online store (docs/adr/0068)."""
    kafka_retention_ms: int
    """Time for which the broker keeps the log, by its records' timestamps; -1 keeps all. It must
    exceed the longest stop of stream and archive together: what it drops before the archive has it
    is lost."""
    kafka_partitions: int
    """Partitions of a topic that slicewise creates."""

    replay_share: str
    """Part of the example's year that lies before the first start and is loaded at once: 0.8."""
    plays_rate: int
    """Plays of the example's songs a second, which the main job begins beside the flights; 0:
    neither."""

    spark_slots: int
    """Spark jobs that Airflow runs at a time, each of one task: the slots of its pool
    `slicewise_spark`. Others wait; the stream and its supervision never do."""

    spark_master: str
    """Master on which bounded jobs and the stream run: local[2], or spark://host:port."""

    platform_python: Path
    spark_python: Path
    spark_submit: Path
    airflow_bin: Path
    spark_jars: Path
    kafka_jars: Path

    @staticmethod
    def load(env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
        """Settings from `env` (os.environ), the supervisor's endpoints and defaults.

        cwd is where the search for the project starts, upwards. Raises SettingsError.
        """
        env = os.environ if env is None else env
        home = _path(env, "SLICEWISE_HOME", Path(__file__).resolve().parents[2])
        state_dir = _path(env, "SLICEWISE_STATE", home / ".state")
        project_dir = _project_dir(env, Path.cwd() if cwd is None else cwd, home)
        endpoints = _endpoints(state_dir / ENDPOINTS)

        def text(name: str, default: str) -> str:
            return env.get(_variable(name)) or endpoints.get(name) or default

        def number(name: str, default: int, least: int = 1, most: int | None = None) -> int:
            return _number(_variable(name), text(name, str(default)), least, most)

        def path(name: str, default: Path) -> Path:
            return _path(env, _variable(name), default)

        redis_url = text("redis_url", "redis://127.0.0.1:6379/0")
        serving_url = text("serving_url", "http://127.0.0.1:8000")
        airflow_url = text("airflow_url", "http://127.0.0.1:8080")
        runbook_base = text("runbook_base", "")
        lineage_url = text("lineage_url", "")
        nodes = urls_of(redis_url)
        if len(set(nodes)) < len(nodes):
            raise SettingsError(
                "a node of the store is named twice",
                where="SLICEWISE_REDIS_URL",
                next_step="leave it out once",
            )
        store_nodes = number("store_nodes", 1)
        if max(len(nodes), store_nodes) > MOST_NODES:
            raise SettingsError(
                f"a store of {max(len(nodes), store_nodes)} nodes",
                where="SLICEWISE_REDIS_URL, SLICEWISE_STORE_NODES",
                expected=f"at most {MOST_NODES}",
                next_step="use fewer nodes",
            )
        several = len(nodes) > 1 or (store_nodes > 1 and "SLICEWISE_REDIS_URL" not in env)
        realtime = _choice(
            "SLICEWISE_REALTIME", text("realtime", "off" if several else "on"), ("on", "off")
        )
        if several and realtime == "on":
            raise SettingsError(
                (
                    "the real-time lane does not write to a store of "
                    f"{max(len(nodes), store_nodes)} nodes yet"
                ),
                where="SLICEWISE_REALTIME",
                expected="off, or a store of one node",
                next_step="the micro-batch lane alone brings events to all nodes, within a second",
            )
        for name, value, schemes in (
            *(("redis_url", node, ("redis", "rediss", "unix")) for node in nodes),
            ("serving_url", serving_url, ("http", "https")),
            ("airflow_url", airflow_url, ("http", "https")),
            *((("runbook_base", runbook_base, ("http", "https")),) if runbook_base else ()),
            *((("lineage_url", lineage_url, ("http", "https")),) if lineage_url else ()),
        ):
            _check_url(_variable(name), value, schemes)
        spark_bin = home / ".venvs" / "spark" / "bin"
        return Settings(
            home=home,
            state_dir=state_dir,
            project_dir=project_dir,
            definitions=path("definitions", _definitions(project_dir)),
            redis_url=redis_url,
            kafka_bootstrap=text("kafka_bootstrap", "127.0.0.1:9092"),
            catalog_name=text("catalog_name", "slicewise"),
            catalog_uri=text("catalog_uri", f"sqlite:///{state_dir}/catalog.db?timeout=60"),
            warehouse=text("warehouse", f"file://{state_dir}/warehouse"),
            serving_url=serving_url,
            airflow_url=airflow_url,
            runbook_base=runbook_base,
            serving_at_once=number("serving_at_once", 16),
            serving_wait_ms=number("serving_wait_ms", 100),
            serving_waiting=number("serving_waiting", 1_000),
            serving_timeout_ms=number("serving_timeout_ms", 4_000),
            serving_client_header=_header(
                "SLICEWISE_SERVING_CLIENT_HEADER", text("serving_client_header", "").lower()
            ),
            training_sets_bytes=number("training_sets_bytes", 256 << 20),
            training_sets_waiting=number("training_sets_waiting", 16),
            training_sets_per_client=number("training_sets_per_client", 4),
            training_sets_keep_h=number("training_sets_keep_h", 24),
            training_sets_namespaces=text("training_sets_namespaces", ""),
            microbatch_interval_ms=number("microbatch_interval_ms", 100, 0),
            max_events_per_batch=number("max_events_per_batch", 2_000_000),
            stream_metrics=_checked_address(
                "SLICEWISE_STREAM_METRICS", text("stream_metrics", "127.0.0.1:0")
            ),
            emit_metrics=_checked_address(
                "SLICEWISE_EMIT_METRICS", text("emit_metrics", "127.0.0.1:0")
            ),
            realtime=realtime,
            realtime_fields=number("realtime_fields", 1_000),
            realtime_ahead=number("realtime_ahead", 1_000_000),
            realtime_start_lag=number("realtime_start_lag", 100_000),
            realtime_batch_s=number("realtime_batch_s", 300, 5),
            realtime_microbatch_interval_ms=number("realtime_microbatch_interval_ms", 1_000, 0),
            realtime_metrics=_checked_address(
                "SLICEWISE_REALTIME_METRICS", text("realtime_metrics", "127.0.0.1:0")
            ),
            probes=_choice("SLICEWISE_PROBES", text("probes", "on"), ("on", "off")),
            probe_limit_ms=number("probe_limit_ms", 30_000),
            lag_limit_s=number("lag_limit_s", 60),
            fresh_within_ms=_checked_deadlines(text("fresh_within_ms", "")),
            build_freshness_ms=number("build_freshness_ms", 1_000, 0),
            alert_again_s=number("alert_again_s", 4 * 3600),
            probes_metrics=_checked_address(
                "SLICEWISE_PROBES_METRICS", text("probes_metrics", "127.0.0.1:0")
            ),
            bad_percent=number("bad_percent", 1, 0),
            maintenance=path("maintenance", project_dir / MAINTENANCE_FILE),
            snapshots=path("snapshots", project_dir / SNAPSHOTS_FILE),
            monitors=path("monitors", project_dir / MONITORS_FILE),
            models=path("models", project_dir / MODELS_FILE),
            models_folder=path("models_folder", state_dir / "models"),
            shadow_behind_s=number("shadow_behind_s", 600, most=MOST_BEHIND_S),
            shadow_metrics=_checked_address(
                "SLICEWISE_SHADOW_METRICS", text("shadow_metrics", "127.0.0.1:0")
            ),
            lineage_url=lineage_url,
            lineage_namespace=text("lineage_namespace", "slicewise"),
            watch=_choice("SLICEWISE_WATCH", text("watch", "on"), ("on", "off")),
            redis_maxmemory=text("redis_maxmemory", "4gb"),
            store_nodes=store_nodes,
            kafka_retention_ms=number("kafka_retention_ms", DEFAULT_RETENTION_MS, -1),
            kafka_partitions=number("kafka_partitions", 2),
            replay_share=text("replay_share", "0.8"),
            plays_rate=number("plays_rate", 20, 0),
            spark_slots=number("spark_slots", 2),
            spark_master=text("spark_master", "local[2]"),
            platform_python=path("platform_python", home / ".venvs/platform/bin/python"),
            spark_python=path("spark_python", spark_bin / "python"),
            spark_submit=path("spark_submit", spark_bin / "spark-submit"),
            airflow_bin=path("airflow_bin", home / ".venvs/airflow/bin/airflow"),
            spark_jars=path("spark_jars", home / ".jars/spark"),
            kafka_jars=path("kafka_jars", home / ".jars/kafka"),
        )

    @property
    def freshness_deadlines(self) -> dict[str, int]:
        """View or source -> milliseconds within which its events are to be in answers."""
        return _deadlines(self.fresh_within_ms)

    @property
    def runbook_url(self) -> str:
        """Address below which docs/runbook.md can be read: what links in alerts and DAGs begin
        with."""
        return self.runbook_base or f"{self.airflow_url.rstrip('/')}/slicewise"

    @property
    def catalog_jdbc_uri(self) -> str:
        """catalog_uri as the JVM's JDBC drivers write it, without user and password."""
        parts = urlsplit(self.catalog_uri)
        if parts.scheme.startswith("sqlite"):
            return "jdbc:sqlite:" + parts.path.replace("//", "/", 1)
        if parts.scheme.startswith("postgresql"):
            return f"jdbc:postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise SettingsError(
            f"catalog of kind {parts.scheme!r}",
            where="SLICEWISE_CATALOG_URI",
            expected="sqlite:///<file> or postgresql+psycopg2://<user>:<password>@<host>/<database>",
            next_step="correct the variable, or leave it out for a file of SQLite",
        )

    def to_env(self) -> dict[str, str]:
        """The variables that make a child process load these very settings."""
        return {_variable(field.name): str(getattr(self, field.name)) for field in fields(self)}

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={redacted(str(getattr(self, field.name)))}" for field in fields(self)
        )
        return f"Settings({', '.join(shown)})"


def urls_of(redis_url: str) -> tuple[str, ...]:
    """The addresses of the store's nodes."""
    return tuple(part.strip() for part in _BETWEEN_URLS.split(redis_url))


def redacted(text: str) -> str:
    """`text` with the user and password of every URL in it masked."""
    return _USERINFO.sub("***@", text)


def _variable(name: str) -> str:
    short = {"state_dir": "STATE", "project_dir": "PROJECT"}
    return "SLICEWISE_" + short.get(name, name.upper())


def _path(env: Mapping[str, str], variable: str, default: Path) -> Path:
    # symbolic links are kept: the interpreter of a virtual environment is one
    try:
        return Path(env[variable]).expanduser().absolute() if env.get(variable) else default
    except RuntimeError as error:
        raise SettingsError(
            f"{env[variable]!r}: {error}",
            where=variable,
            expected="a path",
            next_step="correct the variable, or leave it out",
        ) from error


def _number(variable: str, value: str, least: int, most: int | None = None) -> int:
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least or (most is not None and number > most):
        raise SettingsError(
            f"{value!r} is no usable number",
            where=variable,
            expected=f"an integer of at least {least}"
            + ("" if most is None else f", and at most {most:,}"),
            next_step="correct the variable, or leave it out",
        )
    return number


def _choice(variable: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise SettingsError(
            f"{value!r} is none of its values",
            where=variable,
            expected=" or ".join(choices),
            next_step="correct the variable, or leave it out",
        )
    return value


def _header(variable: str, value: str) -> str:
    if not _HEADER.fullmatch(value):
        raise SettingsError(
            f"{value!r} is no name of a header",
            where=variable,
            expected="as in x-client-id, or none",
            next_step="correct the variable, or leave it out",
        )
    return value


def _check_url(variable: str, value: str, schemes: tuple[str, ...]) -> None:
    try:
        parts = urlsplit(value)
        usable = (
            parts.scheme in schemes
            and bool(parts.netloc or parts.scheme == "unix")
            and parts.port != 0
        )
    except ValueError:  # a bracket that is not closed, a port that is no number
        usable = False
    if not usable:
        raise SettingsError(
            f"{redacted(value)!r} is no usable address",
            where=variable,
            expected=" or ".join(f"{scheme}://…" for scheme in schemes),
            next_step="correct the variable, or leave it out",
        )


def _checked_deadlines(text: str) -> str:
    try:
        _deadlines(text)
    except ValueError as error:
        raise SettingsError(
            f"{text!r} names no deadlines",
            where="SLICEWISE_FRESH_WITHIN_MS",
            expected="view=milliseconds or source=milliseconds, comma separated, each above 0",
            next_step="correct the variable, or leave it out",
        ) from error
    return text


def _deadlines(text: str) -> dict[str, int]:
    deadlines = dict[str, int]()
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, ms = part.partition("=")
        if not name.strip() or int(ms) <= 0:
            raise ValueError(part)
        deadlines[name.strip()] = int(ms)
    return deadlines


def _checked_address(variable: str, value: str) -> str:
    host, _, port = value.rpartition(":")
    digits = port.isascii() and port.isdigit()
    if not host or any(map(str.isspace, host)) or not digits or int(port) > 65_535:
        raise SettingsError(
            f"{value!r} is no usable address",
            where=variable,
            expected="host:port, as 0.0.0.0:9400",
            next_step="correct the variable, or leave it out",
        )
    return value


def _endpoints(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    named = _parsed(file, json.loads).get("settings", {})
    return {str(k): str(v) for k, v in named.items()} if isinstance(named, dict) else {}


def _project_dir(env: Mapping[str, str], cwd: Path, home: Path) -> Path:
    named = env.get("SLICEWISE_PROJECT")
    if named:
        path = Path(named).expanduser().absolute()
        return path.parent if path.name == PROJECT_FILE else path
    for folder in (cwd, *cwd.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    return home / "examples" / "flights"


def _definitions(project_dir: Path) -> Path:
    file = project_dir / PROJECT_FILE
    if not file.is_file():
        return project_dir / "features.py"
    named = _parsed(file, tomllib.loads).get("definitions", "features.py")
    if not isinstance(named, str):
        raise SettingsError(
            f"definitions = {named!r}",
            where=str(file),
            expected='definitions = "features.py"',
            next_step="name the file or folder of the definitions, in quotes",
        )
    return project_dir / named


def read_listed(file: Path, default: Path, variable: str) -> dict[str, object]:
    """A TOML file that a project may have: empty where there is none and none was named. default:
    where it is looked for; variable: that names another. Raises SettingsError."""
    if not file.is_file():
        if file == default:
            return {}
        raise SettingsError(
            "there is no such file",
            where=f"{variable}, {file}",
            expected="a TOML file",
            next_step="correct the variable, or leave it out",
        )
    return _parsed(file, tomllib.loads, "TOML file")


def is_finite(value: object) -> bool:
    """Tells whether a value of a file is a finite number that a double holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _parsed(
    file: Path, loads: Callable[[str], dict[str, object]], kind: str = "file"
) -> dict[str, object]:
    try:
        return loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(
            str(error), where=str(file), expected=f"a readable {kind}", next_step="correct the file"
        ) from error
