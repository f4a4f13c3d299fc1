"""Questions answered from events, by the rules of the online answer.

Doors: answer_spine, settled, local.
"""
