"""Training sets: what was known, rebuilt with the bits that were served."""
