"""Options that our Java processes have in common."""

from __future__ import annotations

LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Ten times Java's own numbers of calls and turns before the second compiler takes a method. What a
start calls often waits for it; what a stream calls a hundred times as often has it a moment later
(docs/adr/0119)."""
