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
KAFKA = "a name of Kafka's own"

TABLE: tuple[Retired, ...] = (
    Retired("topic partition", ("place", "places"), english=True, left=422),
    Retired("offset vector", ("cover", "covers"), english=True, left=10),
    Retired("committed offsets", ("ledger", "ledgers"), left=8),
    Retired("applied offset", ("guard", "guards"), left=9),
    Retired(
        "compacted beyond",
        ("ahead",),
        english=True,
        kept=(
            Kept(
                ("*max_ahead*", "*MAX_AHEAD*"),
                EVERYWHERE,
                "public parameter `max_ahead=` of a source, stored",
            ),
        ),
        left=70,
    ),
    Retired("node claims", classes=("Base",), left=0),
    Retired("store metadata", ("marks",), left=24),
    Retired("store id", ("generation", "generations"), left=2),
    Retired(
        "deployment version",
        ("epoch", "epochs"),
        kept=(Kept(("*_LEADER_EPOCH", "*_PRODUCER_EPOCH"), EVERYWHERE, KAFKA),),
        left=50,
    ),
    Retired("build", ("term", "terms"), english=True, left=18),
    Retired("server run", ("incarnation", "incarnations"), left=0),
    Retired(
        "server run",
        ("life", "lives"),
        english=True,
        kept=(
            Kept(
                ("*half_li*", "*HALF_LI*"),
                EVERYWHERE,
                "the half-life of a decay is the field's term",
            ),
        ),
        left=14,
    ),
    Retired("real-time lane, pending events", ("tail", "tails", "tailed", "untailed"), left=49),
    Retired("micro-batch lane, apply batch", ("fold", "folds", "folding", "folded"), left=56),
    Retired("publish hour", ("swap", "swaps", "swapped", "swapping"), left=3),
    Retired("publish total", ("bring", "brings", "brought"), english=True, left=20),
    Retired("five-day total", ("pentad", "pentads"), left=9),
    Retired("total until", ("horizon", "horizons"), left=0),
    Retired("archive version", ("seq", "seqs"), left=9),
    Retired("storage unit", classes=("Unit",), left=14),
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
        left=523,
    ),
    Retired("metadata backup", ("witness", "witnesses"), left=2),
    Retired("high water", ("reached",), english=True, left=274),
    Retired("accepted gap", ("hole", "holes"), left=21),
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
    Retired("status, report", ("say", "says", "saying"), english=True, left=4),
    Retired("status, reply", ("told", "tell", "tells"), english=True, left=3),
    Retired("status, reply", ("said",), english=True, left=4),
    Retired("received", ("heard",), english=True, left=0),
    Retired("request", ("ask", "asks", "asked", "asking"), english=True, left=30),
    Retired("own", ("mine",), english=True, left=0),
    Retired("stored", ("held",), english=True, left=3),
    Retired("current", ("standing",), english=True, left=23),
    Retired("the thing's own name", ("found",), english=True, left=351),
    Retired("the thing's own name", ("each",), english=True, left=548),
)
