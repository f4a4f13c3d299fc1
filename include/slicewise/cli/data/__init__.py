"""Commands for data: sets for training, replays and load.

Doors: dataset, load, replay.
"""
