"""The table of retired words: which words no name has any more, what replaces each, and which names
keep one and why.

A name is looked at by its parts: `hot_ledger`, `hotLedger` and `HotLedger` have the part `ledger`.
`left` counts the places where a row's words still stand. It may only fall:
`python -m tests.architecture.words` prints the places, and
`python -m tests.architecture.words lower` writes the smaller numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Kept:
    """Names that keep a word. names and paths are patterns, one of which fits; `*` fits folders
    too."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    reason: str

    def fits(self, name: str, path: str) -> bool:
        """Tells whether this name keeps the word in this file."""
        return any(fnmatchcase(name, pattern) for pattern in self.names) and any(
            fnmatchcase(path, pattern) for pattern in self.paths
        )


@dataclass(frozen=True)
class Retired:
    """A row. parts: in any name, lower case; classes: whole names in CamelCase.

    english: the words are ordinary English, so that names of tests, which are sentences, and
    headings may have them.
    """

    becomes: str
    parts: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    english: bool = False
    kept: tuple[Kept, ...] = ()
    left: int = 0

    @property
    def title(self) -> str:
        """The row's first word."""
        return (*self.parts, *self.classes)[0]


EVERYWHERE = ("*",)
JAVA_TESTS = ("include/slicewise/jvm/src/test/*",)
KAFKA = "a name of Kafka's own"
MESSAGE = "the text of a message, as it is written"
METRIC = "the public name of a metric or of its label"
RULE = "the name of a rule of the simulation"
TEST = "plain English in the name of a test"
JAVA_TIME = "a name of Java's `java.time`"
UNIX = "the Unix epoch: times count from it"
RECORD_FILE = "a record's file keeps its name, by which others link it"
DRILL = "the name of a drill or world, by which its results are kept"
STORED = "stored: a key, field or file of that name"
DECLARED = "the fold that a user declares by `sw.ordered`: functional programming's term"

TABLE: tuple[Retired, ...] = (
    Retired(
        "topic partition",
        ("place", "places"),
        english=True,
        kept=(
            Kept(("places",), ("docs/format.md",), STORED),
            Kept(
                ("places",),
                ("tests/unit/codec/test_members.py",),
                "decimal places: a parameter of hypothesis",
            ),
        ),
        left=0,
    ),
    Retired(
        "offset vector",
        ("cover", "covers"),
        english=True,
        kept=(
            Kept(("cover",), ("docs/adr/*",), "a column of the slices' table"),
            Kept(("covers",), ("docs/format.md",), STORED),
            Kept(
                ("cover",),
                ("docs/guides/emission.md", "docs/reference/http.md"),
                "a key of published values and of HTTP",
            ),
            Kept(
                ("cover",),
                (
                    "include/slicewise/client/*",
                    "include/slicewise/serving/leaderboards.py",
                    "tests/fixtures/answers.py",
                ),
                "public: an attribute of the client's leaderboard",
            ),
        ),
        left=0,
    ),
    Retired(
        "committed offsets",
        ("ledger", "ledgers"),
        kept=(
            Kept(
                ("ledger",),
                ("docs/adr/0059*", "docs/adr/0122*", "docs/format.md"),
                "the table `ops.ledger`",
            ),
            Kept(("ledger_advanced_at",), ("docs/reference/http.md",), "a key of HTTP"),
            Kept(
                ("ledger_advanced_us",),
                ("include/slicewise/client/answers.py", "include/slicewise/serving/*"),
                "public: an attribute of the client's freshness",
            ),
        ),
        left=0,
    ),
    Retired("applied offset", ("guard", "guards"), left=0),
    Retired(
        "compacted beyond",
        ("ahead",),
        english=True,
        kept=(
            Kept(
                ("*most_ahead*", "MOST_AHEAD", "maxAheadUs"),
                ("*",),
                "the most that `max_ahead=` allows, of a source and its earlier schemas",
            ),
            Kept(("too_far_ahead",), ("docs/runbook.md",), "a reason of bad records, stored"),
            Kept(
                ("*_REALTIME_AHEAD", "realtime_ahead", "ahead"),
                (
                    "docs/*",
                    "include/slicewise/settings.py",
                    "include/slicewise/spark/realtime/spec.py",
                    "include/slicewise/jvm/src/main/java/io/slicewise/realtime/*",
                    "tests/integration/spark/test_realtime_breaks.py",
                ),
                "the setting of that name, and the key that brings it to the writers",
            ),
            Kept(
                ("*max_ahead*", "*MAX_AHEAD*"),
                EVERYWHERE,
                "public parameter `max_ahead=` of a source, stored",
            ),
        ),
        left=0,
    ),
    Retired("node claims", classes=("Base",), left=0),
    Retired(
        "store metadata",
        ("marks",),
        kept=(
            Kept(("marks",), ("docs/format.md",), STORED),
            Kept(("marks",), ("tests/*",), "marks of pytest"),
            Kept(("test_*marks*",), ("tests/*",), TEST),
        ),
        left=0,
    ),
    Retired(
        "store id",
        ("generation", "generations"),
        kept=(Kept(("generation",), ("docs/format.md",), STORED),),
        left=0,
    ),
    Retired(
        "deployment version",
        ("epoch", "epochs"),
        kept=(
            Kept(
                ("epoch",),
                ("docs/format.md",),
                "stored: a field of the metadata; the Unix epoch in a code span",
            ),
            Kept(("EPOCH", "_EPOCH", "_EPOCH_ORDINAL"), ("*",), UNIX),
            Kept(("test_*_epoch*",), ("tests/unit/*",), UNIX),
            Kept(("toEpochDay", "ofEpochDay", "getEpochSecond"), ("*.java",), JAVA_TIME),
            Kept(("epochId",), ("*.java",), "a parameter of Spark's `ForeachWriter.open`"),
            Kept(("*_LEADER_EPOCH", "*_PRODUCER_EPOCH"), EVERYWHERE, KAFKA),
        ),
        left=0,
    ),
    Retired(
        "build",
        ("term", "terms"),
        english=True,
        kept=(
            Kept(
                ("term", "terms"),
                (
                    "include/slicewise/aggregates/exact/*",
                    "tests/laws/oracles/opinions.py",
                    "tests/support/inputs/classes.py",
                ),
                "the terms of a sum or product",
            ),
        ),
        left=0,
    ),
    Retired("server run", ("incarnation", "incarnations"), left=0),
    Retired(
        "server run",
        ("life", "lives"),
        english=True,
        kept=(
            Kept(
                ("lives",),
                (
                    "include/slicewise/lifecycle/health/*",
                    "include/slicewise/spark/driver.py",
                    "tests/unit/lifecycle/*",
                ),
                "plain English: whether the real-time lane runs",
            ),
            Kept(
                ("*half_li*", "*HALF_LI*"),
                EVERYWHERE,
                "the half-life of a decay is the field's term",
            ),
        ),
        left=0,
    ),
    Retired(
        "real-time lane, pending events",
        ("tail", "tails", "tailed", "untailed"),
        kept=(
            Kept(("00??-*tail*",), ("docs/adr/*",), RECORD_FILE),
            Kept(
                ("tail",),
                ("docs/adr/*", "docs/faults.md"),
                "the part `tail`, and names of drills, worlds and golden files that have it",
            ),
            Kept(
                ("tail",),
                ("docs/runbook.md", "spark_jobs/tail.py"),
                "the part `tail`: its job, its log and its status `tail:<source>`",
            ),
            Kept(("tail",), ("docs/reference/http.md",), "a key of HTTP"),
            Kept(("tail",), ("tests/unit/lifecycle/*",), "a key of the stream's status"),
            Kept(("tail_plays",), ("tests/unit/lifecycle/*",), "the status `tail:plays`"),
        ),
        left=0,
    ),
    Retired(
        "micro-batch lane, apply batch",
        ("fold", "folds", "folding", "folded"),
        kept=(
            Kept(("0067-the-fold-gives-way",), ("docs/adr/*",), RECORD_FILE),
            Kept(("fold",), ("docs/faults.md",), DRILL),
            Kept(
                ("folding",),
                ("include/slicewise/aggregates/*", "tests/unit/aggregates/*"),
                DECLARED,
            ),
            Kept(
                ("fold", "folds", "test_*fold*"),
                (
                    "tests/integration/serving/test_order.py",
                    "tests/support/inputs/folds.py",
                    "tests/unit/aggregates/test_ordered.py",
                    "tests/unit/features/test_functions_that_raise.py",
                    "tests/unit/training/world.py",
                ),
                DECLARED,
            ),
        ),
        left=0,
    ),
    Retired(
        "publish hour",
        ("swap", "swaps", "swapped", "swapping"),
        kept=(
            Kept(("swapped",), ("docs/format.md",), STORED),
            Kept(("test_*_swap_*",), ("tests/integration/local/*",), "the command SWAPDB of Redis"),
        ),
        left=0,
    ),
    Retired("publish total", ("bring", "brings", "brought"), english=True, left=0),
    Retired(
        "five-day total",
        ("pentad", "pentads"),
        kept=(
            Kept(
                ("pentads",),
                (
                    "include/slicewise/cli/define/plan.py",
                    "include/slicewise/features/plan/*",
                    "tests/unit/features/plan/*",
                ),
                "a key of `slicewise plan --json`",
            ),
        ),
        left=0,
    ),
    Retired("total until", ("horizon", "horizons"), left=0),
    Retired(
        "archive version",
        ("seq", "seqs"),
        kept=(
            Kept(("seq",), ("docs/adr/*",), "a column of the tables of slices and archives"),
            Kept(("Seq",), ("*.java",), "Scala's `Seq`"),
        ),
        left=0,
    ),
    Retired("storage unit", classes=("Unit",), left=0),
    Retired(
        "per partition",
        ("spread", "spreads"),
        kept=(
            Kept(
                ("spread",),
                ("include/slicewise/features/*",),
                "public parameter `spread=` of a view, stored",
            ),
            Kept(("spread",), ("docs/*",), "public parameter `spread=` of a view, stored"),
            Kept(
                ("spread",),
                ("tests/*", "benchmarks/*"),
                "public parameter `spread=`, or the name of a feature",
            ),
            Kept(
                ("Spread",),
                ("docs/guides/own_aggregates.md", "docs/adr/0045*"),
                "the class of an example",
            ),
        ),
        left=0,
    ),
    Retired(
        "scalar",
        ("few", "alone"),
        ("Listed",),
        english=True,
        kept=(
            Kept(
                ("alone", "readers_alone", "_ALONE", "named_by_rows_alone"),
                ("tests/*",),
                "plain English: by itself",
            ),
        ),
        left=0,
    ),
    Retired("batched, sharded", ("joint", "joints"), left=0),
    Retired(
        "partial cache, lost offsets, already applied, remembered ids",
        ("known",),
        english=True,
        kept=(
            Kept(("test_*known*",), ("docs/adr/*",), TEST),
            Kept(("known_at*",), EVERYWHERE, "public parameter `known_at`"),
            Kept(("known",), ("docs/guides/knowledge.md",), "its option `--known-at`"),
        ),
        left=0,
    ),
    Retired(
        "metadata backup",
        ("witness", "witnesses"),
        kept=(
            Kept(
                ("witness",),
                ("docs/adr/0059*", "docs/runbook.md"),
                "the file `stream/witness.json`",
            ),
        ),
        left=0,
    ),
    Retired("high water", ("reached",), english=True, left=0),
    Retired(
        "accepted gap",
        ("hole", "holes"),
        kept=(
            Kept(
                ("hole",),
                ("CHANGELOG.md", "docs/*", "include/slicewise/cli/operate/hole.py"),
                "the verb `slicewise hole`, and rows of kind `hole`",
            ),
            Kept(("holes",), ("docs/format.md",), "the status `holes:<source>`"),
        ),
        left=0,
    ),
    Retired("hypotheses", ("doubt", "doubts", "doubtful"), left=0),
    Retired(
        "law check",
        ("trial", "trials", "tried", "proven"),
        english=True,
        kept=(
            Kept(
                ("trial", "trials", "trials_of"),
                ("benchmarks/*", "tests/*"),
                "a trial of a random sample, as in statistics",
            ),
        ),
        left=0,
    ),
    Retired(
        "leaderboard",
        ("board", "boards"),
        kept=(
            Kept(
                ("board",),
                ("include/slicewise/cli/operate/run.py", "include/slicewise/local/run_report.py"),
                "a key of `slicewise run --json`",
            ),
            Kept(("board",), ("tests/fixtures/*", "tests/compat/*"), "a key of the kept answers"),
            Kept(("board",), ("docs/format.md",), "stored: the key `sw:<store id>:board:<name>`"),
        ),
        left=0,
    ),
    Retired(
        "status, report",
        ("say", "says", "saying"),
        english=True,
        kept=(
            Kept(("aCallSays*", "*AndSaysWhere"), JAVA_TESTS, TEST),
            Kept(("test_*",), ("docs/adr/0037*",), TEST),
            Kept(("says",), ("docs/runbook.md",), MESSAGE),
        ),
        left=0,
    ),
    Retired(
        "status, reply",
        ("told", "tell", "tells"),
        english=True,
        kept=(
            Kept(("aNodeThatForgot*",), JAVA_TESTS, TEST),
            Kept(("told",), ("docs/adr/0059*",), RULE),
            Kept(
                ("tell",),
                ("include/slicewise/training/writing.py",),
                "a method of Python's files",
            ),
        ),
        left=0,
    ),
    Retired(
        "status, reply",
        ("said",),
        english=True,
        kept=(
            Kept(("test_*",), ("docs/adr/0044*",), TEST),
            Kept(
                ("said",),
                (
                    "include/slicewise/lifecycle/health/alerts.py",
                    "plugins/slicewise_airflow/channels.py",
                ),
                "a key of a channel in `slicewise alerts --json`",
            ),
        ),
        left=0,
    ),
    Retired("received", ("heard",), english=True, left=0),
    Retired(
        "request",
        ("ask", "asks", "asked", "asking"),
        english=True,
        kept=(
            Kept(
                ("asked",),
                ("include/slicewise/cli/operate/hour.py",),
                "the option `--asked` of `slicewise hour`",
            ),
            Kept(("asked_by",), ("docs/reference/http.md",), "a key of an answer over HTTP"),
            Kept(
                ("slicewise_partial_cache_asked",),
                ("include/slicewise/serving/metrics.py", "docs/reference/metrics.md"),
                METRIC,
            ),
        ),
        left=0,
    ),
    Retired("own", ("mine",), english=True, left=0),
    Retired(
        "stored",
        ("held",),
        english=True,
        kept=(
            Kept(("held",), ("docs/adr/0023*",), RULE),
            Kept(("held",), ("docs/runbook.md",), MESSAGE),
        ),
        left=0,
    ),
    Retired(
        "current",
        ("standing",),
        english=True,
        kept=(Kept(("standing",), ("docs/adr/0023*",), RULE),),
        left=0,
    ),
    Retired(
        "the thing's own name",
        ("found",),
        english=True,
        kept=(
            Kept(
                ("*NotFoundError", "*NotFoundException"),
                EVERYWHERE,
                "an exception of Python's or of Airflow's",
            ),
            Kept(
                ("found",),
                ("include/slicewise/serving/metrics.py", "docs/reference/metrics.md"),
                METRIC,
            ),
        ),
        left=0,
    ),
    Retired(
        "the thing's own name",
        ("each",),
        english=True,
        kept=(
            Kept(("forEach",), ("include/slicewise/jvm/*",), "a method of Java's collections"),
            Kept(("eachPartition*",), JAVA_TESTS, TEST),
            Kept(("test_*",), ("docs/adr/0023*",), TEST),
        ),
        left=0,
    ),
)
