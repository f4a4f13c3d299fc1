"""What every aggregate is made of: columns, events, exact digits, hashes and orders."""
