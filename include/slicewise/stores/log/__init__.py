"""What the platform asks of Kafka beside reading records: topics' identities, offsets, producing.

Doors: KafkaLog, Publisher, PlainWriter.
"""
