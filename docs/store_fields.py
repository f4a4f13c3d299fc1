"""The tables of keys and fields in docs/format.md, and the JVM's StoreFields.java, made from
`codec/store_fields`.

python docs/store_fields.py            rewrite both
python docs/store_fields.py --check    fail where one is not what this makes of today's table
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from slicewise.codec.store_fields import FIELDS, KEYS, Field, Key, Name, Where, fields_of

PAGE = Path(__file__).parent / "format.md"
JAVA = (
    Path(__file__).parents[1]
    / "include/slicewise/jvm/src/main/java/io/slicewise/wire/StoreFields.java"
)
OF_HASHES = {
    Where.HOT: "field of `hot`",
    Where.DAY: "field of `day`",
    Where.LIST: "field of `list`",
    Where.IDS: "field of `ids`",
    Where.PUBLISHED: "field of `swapped`",
    Where.VECTORS: "field of `covers`",
    Where.ENTERED: "field of `entered`",
    Where.LEADERBOARD: "field of `board`",
    Where.METADATA: "field of `marks`",
}
REGION = re.compile(
    r"(<!-- ([a-z]+): made by docs/store_fields\.py -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL
)
JAVA_NUMBERS = {"partition": "int", "store id": "long"}
JAVA_WIDTH = 100


def tables() -> dict[str, str]:
    """The page's tables by the names of their regions."""
    made = {
        "keys": _table("key", "holds", ((key.text, key.doc) for key in KEYS)),
        "values": _table(
            "field",
            "value",
            ((entry.text, entry.value.layout) for entry in FIELDS if entry.value.layout),
        ),
    }
    for where, head in OF_HASHES.items():
        made[where.name.lower()] = _table(
            head, "value", ((entry.text, entry.doc) for entry in fields_of(where))
        )
    return made


def _table(name: str, value: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {name} | {value} |", "|---|---|", *(f"| `{text}` | {doc} |" for text, doc in rows)]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its tables made anew; KeyError for a region that no table is for."""
    made = tables()
    regions = [match[2] for match in REGION.finditer(text)]
    if sorted(regions) != sorted(made):
        raise KeyError(f"regions of {PAGE.name}: {sorted(regions)}, tables: {sorted(made)}")
    return REGION.sub(lambda match: match[1] + made[match[2]] + match[3], text)


def java() -> str:
    """The class with every name that the JVM uses."""
    members = [
        _member(entry)
        for entry in (*KEYS, *FIELDS)
        if isinstance(entry, Key | Field) and entry.in_jvm
    ]
    return (
        "package io.slicewise.wire;\n\n"
        "/** Keys and fields of the store, which docs/store_fields.py writes from its table. */\n"
        "public final class StoreFields {\n  private StoreFields() {}\n\n"
        + "\n\n".join(members)
        + "\n}\n"
    )


def documented(text: str) -> str:
    """A comment of a member, on one line where it fits."""
    line = f"  /** {text} */"
    if len(line) <= JAVA_WIDTH:
        return f"{line}\n"
    lines = textwrap.wrap(text, JAVA_WIDTH - 5, break_long_words=False, break_on_hyphens=False)
    return "  /**\n" + "".join(f"   * {line}\n" for line in lines) + "   */\n"


def _member(entry: Name) -> str:
    about = documented(f"`{entry.text}`: {entry.doc.replace('*/', '* /')}.")
    if not entry.slots:
        return f'{about}  public static final String {entry.constant} = "{entry.text}";'
    parameters = ", ".join(
        f"{JAVA_NUMBERS.get(slot, 'String')} {_camel(slot)}" for slot in entry.slots
    )
    parts = re.split(r"<([a-z ]+)>", entry.text)
    pieces = [_camel(part) if i % 2 else f'"{part}"' for i, part in enumerate(parts) if part]
    return (
        f"{about}  public static String {entry.constant}({parameters}) {{\n    return "
        f"{' + '.join(pieces)};\n  }}"
    )


def _camel(slot: str) -> str:
    first, *rest = slot.split()
    return first + "".join(word.capitalize() for word in rest)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for path, made in ((PAGE, page(PAGE.read_text(encoding="utf-8"))), (JAVA, java())):
        if check and path.read_text(encoding="utf-8") != made:
            print(
                f"{path.name} is not what the table says now: python docs/store_fields.py",
                file=sys.stderr,
            )
            return 1
        if not check:
            path.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
