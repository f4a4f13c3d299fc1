"""Snapshots of all entities that are taken every hour or day, into tables of Iceberg.

Doors: ScheduledSnapshot, take, load_scheduled.
"""
