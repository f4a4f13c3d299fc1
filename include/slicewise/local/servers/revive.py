"""Starts one server that died, at the address that it had, unless somebody else did, or stopped it
meanwhile.

python -m slicewise.local.servers.revive redis
"""

from __future__ import annotations

import sys

from slicewise.errors import SlicewiseError
from slicewise.local.servers import supervisor
from slicewise.local.servers.watch import NEEDLESS
from slicewise.settings import Settings


def main(name: str) -> int:
    """Starts a server again. Gives 0 where it was started, NEEDLESS where that was not to be done
    any more. Else 1, with the reason in the first line of standard error."""
    try:
        return 0 if supervisor.revive(Settings.load(), name) else NEEDLESS
    except (SlicewiseError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
