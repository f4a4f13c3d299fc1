"""Stores are reached through ports: what is written is written whole or not at all.

Doors: log, online, lake.
"""
