"""Starts one server that died, at the address that it had, unless somebody else did, or stopped it meanwhile.

python -m slicewise.local.revive redis
"""

from __future__ import annotations

import sys

from slicewise.errors import SlicewiseError
from slicewise.local import supervisor
from slicewise.settings import Settings


def main(name: str) -> int:
    """0 where nothing is to be done any more, else 1 with the reason in the first line of standard error."""
    try:
        supervisor.revive(Settings.load(), name)
    except (SlicewiseError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
