"""Models of a project: what a run judges, when one is trained again, and whether it goes live.

Doors: backtests, trainings, decision.
"""
