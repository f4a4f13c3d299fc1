"""Questions answered from events, by the rules of the online answer.

Doors: TrainingRequest, resolve, local.
"""
