"""Windows over event time: lengths, bounds, the slices that they consist of, and sessions."""
