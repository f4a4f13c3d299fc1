"""What may be written, as pure functions."""
