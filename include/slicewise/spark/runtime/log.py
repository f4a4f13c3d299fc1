"""Events of the stream and the bounded jobs, written as everywhere: `slicewise.log`."""

from __future__ import annotations

from slicewise.log import event as event
from slicewise.log import to_stderr as to_stderr
from slicewise.log import warning as warning
