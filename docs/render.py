"""A page's output is what its command printed: this runs the command above each block and writes
its output.

    python docs/render.py docs/guides/local.md [more pages]     rewrite
    python docs/render.py --check docs/guides/local.md          fail where a page names a command that no longer runs

A block stands between `<!-- output of: COMMAND -->` and `<!-- end -->`; that of
`<!-- error of: COMMAND -->` must fail. COMMAND is a slicewise command. Nothing of the machine stays
in a page: the repository's folder becomes `.`, the home folder `~`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"(<!-- (?P<kind>output|error) of: (?P<command>[^\n]+?) -->\n)```text\n.*?```\n(?P<end><!-- end -->)",
    re.DOTALL,
)
WIDTH = 118


def output_of(command: str, kind: str = "output") -> str:
    """The output of a command, or the error that it ends with, without colours and without the
    machine's folders."""
    words = shlex.split(command)
    if words[0] == "slicewise":
        words[0] = str(ROOT / ".venvs" / "platform" / "bin" / "slicewise")
    env = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=3600
    )
    if bool(done.returncode) != (kind == "error"):
        raise SystemExit(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return scrubbed(done.stderr if kind == "error" else done.stdout)


def scrubbed(text: str) -> str:
    """Text without this machine in it."""
    for folder, short in ((ROOT, "."), (Path.home(), "~")):
        text = text.replace(str(folder), short)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def rendered(page: str) -> str:
    """The page with every block made anew."""
    return BLOCK.sub(
        lambda m: f"{m[1]}```text\n{output_of(m['command'], m['kind'])}\n```\n{m['end']}", page
    )


def commands(page: str) -> list[tuple[str, str]]:
    """The commands whose output, or error, a page shows, and which of the two."""
    return [(match["command"], match["kind"]) for match in BLOCK.finditer(page)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for path in arguments.pages:
        page = path.read_text(encoding="utf-8")
        if arguments.check:
            for command, kind in commands(page):
                output_of(command, kind)
        else:
            path.write_text(rendered(page), encoding="utf-8")
        print(f"{path}: {len(commands(page))} blocks", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
