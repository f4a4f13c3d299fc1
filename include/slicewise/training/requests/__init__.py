"""Requests for data sets: typed by a deployment, or refused before anything is read.

Doors: TrainingRequest, UnitRequest, question_types.
"""
