"""Events that were served a moment ago, before they are archived.

Doors: RecentEvents.
"""
