"""Measurements against a fair baseline in the same run; `make bench` prints JSON and a table."""
