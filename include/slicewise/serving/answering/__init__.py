"""A request to an answer: what is asked, planned, refused and assembled.

Doors: FeatureService, requests, Answer.
"""
