"""slicewise: streaming window aggregates as machine-learning features."""

__version__ = "0.1.0"
