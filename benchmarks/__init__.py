"""Measurements, each against a fair baseline in the same run; `make bench` runs them all and prints JSON and a table."""
