"""Commands for models: training, versions, promotion, and answers beside the live ones.

Doors: train, models, promote_model.
"""
