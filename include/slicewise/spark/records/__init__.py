"""Kafka records as typed columns."""
