"""Offsets of a log: how far something was applied, the token of an answer, and accepted gaps.

Doors: OffsetVector, Token, AcceptedGap.
"""
