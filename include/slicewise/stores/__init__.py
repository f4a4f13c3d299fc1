"""Stores are reached through ports: what is written is written whole or not at all.

Kafka's is `log`, the online store `online`, and Iceberg's `lake`; what was deployed is kept beside
them.

Doors: MetadataBackup.
"""
