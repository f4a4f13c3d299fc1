"""Events for the example project and for benchmarks: equal arguments make equal events.

Doors: Pace, Plays, run.
"""
