"""Windows over event time: lengths, bounds, the slices that they consist of, and sessions.

A window is a small frozen class with its own fields, one file each; all answer the same questions
(`window.Window`). Importing this room makes every kind known by its name.

Doors: Window, durations, segments.
"""

from slicewise.windows.kinds import as_window as as_window
from slicewise.windows.window import Window as Window
