"""Walks a page as a reader would: types its commands, in order, in an empty folder, and keeps what
they print.

    python docs/walk.py docs/tutorial.md                 in a folder of its own; writes the outputs into the page
    python docs/walk.py docs/tutorial.md --folder DIR    in this one, which stays

A block ```sh is typed, in one shell: folders and variables stay from one to the next. A block of
code after `<!-- file: NAME -->` is written to that file. After commands, `<!-- prints -->`, a
block ```text and `<!-- end -->` hold what they print; `<!-- prints, such as -->` what differs from
one platform to another, without the lines of progress that repeat.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(
    r"<!-- file: (?P<name>\S+) -->\n```\w+\n(?P<text>.*?)```\n"
    r"|```sh\n(?P<commands>.*?)```\n"
    r"(?:<!-- prints(?P<such>, such as)? -->\n```text\n(?P<output>.*?)```\n<!-- end -->)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Step:
    """Commands and what the page says that they print, or a file and its text."""

    commands: str = ""
    output: str | None = None
    is_exact: bool = True
    """False where what it prints depends on the platform."""
    file: str = ""
    text: str = ""
    span: tuple[int, int] = (0, 0)
    """Place of `output` in the page."""


def steps(page: str) -> Iterator[Step]:
    """Steps of a reader, in the page's order."""
    for match in PART.finditer(page):
        if match["name"]:
            yield Step(file=match["name"], text=match["text"])
        else:
            yield Step(
                match["commands"], match["output"], not match["such"], span=match.span("output")
            )


@dataclass
class Shell:
    """A shell whose folder and variables outlive each block."""

    folder: Path
    env: Mapping[str, str]
    timeout_s: float = 900.0
    kept: Path = field(init=False)

    def __post_init__(self) -> None:
        self.kept = self.folder / ".shell"
        self.kept.write_text("", encoding="utf-8")

    def type(self, commands: str) -> str:
        """Runs the commands; gives what both streams print, as it comes. Raises CalledProcessError
        where one fails."""
        keep = f'{{ declare -px; echo "cd \\"$PWD\\""; }} > "{self.kept}"'
        script = f'. "{self.kept}"\nset -euo pipefail\n{commands}\n{keep}\n'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=dict(self.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=self.timeout_s,
        )
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, commands, done.stdout)
        return done.stdout

    def write(self, name: str, text: str) -> None:
        """A file in the folder in which the reader stands now."""
        self.type(f"cat > {name} <<'END-OF-FILE'\n{text}END-OF-FILE")


def reader_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a reader who did what the page asks for: the platform's programs are on
    the PATH."""
    bin_folder = ROOT / ".venvs" / "platform" / "bin"
    return {**env, "PATH": f"{bin_folder}:{env['PATH']}", "COLUMNS": "118", "NO_COLOR": "1"}


def walked(page: str, folder: Path) -> str:
    """The page with all that it prints made anew."""
    shell, pieces, done = Shell(folder, reader_env(os.environ)), [], 0
    for step in steps(page):
        if step.file:
            shell.write(step.file, step.text)
            continue
        print(step.commands, end="", flush=True)
        output = shell.type(step.commands)
        if step.output is not None:
            begin, end = step.span
            shown = scrubbed(output, folder)
            pieces += [page[done:begin], shown if step.is_exact else shortened(shown)]
            done = end
    return "".join([*pieces, page[done:]])


def scrubbed(text: str, folder: Path) -> str:
    """Text without this machine's folders in it."""
    for name, short in ((folder, "."), (ROOT, "slicewise"), (Path.home(), "~")):
        text = text.replace(str(name), short)
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "\n".join(lines) + "\n"


def masked(text: str) -> str:
    """The values in an answer of the API, without tokens and times; every other text as it is."""
    try:
        answer = json.loads(text)
        results = [
            {"entity": result["entity"], "values": result["values"]} for result in answer["results"]
        ]
        return json.dumps({"results": results, "flags": answer["flags"]})
    except (ValueError, TypeError, KeyError):
        return text


def shortened(text: str) -> str:
    """Without lines of progress but the first of a kind: those that say what one before said, with
    other figures."""
    kept: dict[str, str] = {}
    for line in text.splitlines():
        kept.setdefault(re.sub(r"[\d.,]+", "0", line), line)
    return "\n".join(kept.values()) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument(
        "--folder", type=Path, help="an empty one; by default one that is gone afterwards"
    )
    arguments = parser.parse_args()
    page = arguments.page.read_text(encoding="utf-8")
    with TemporaryDirectory() as own:
        try:
            made = walked(page, (arguments.folder or Path(own)).resolve())
        except subprocess.CalledProcessError as error:
            print(f"ended with {error.returncode}: {error.cmd}{error.output}", file=sys.stderr)
            return 1
    arguments.page.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
