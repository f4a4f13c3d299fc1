"""Kafka for the platform beside reading records: topics' identities, offsets, producing.

Doors: KafkaLog, Publisher, PlainWriter.
"""
