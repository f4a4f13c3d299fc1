"""Questions answered from events, by the rules of the online answer.

Doors: Asked, resolve, Question.
"""
