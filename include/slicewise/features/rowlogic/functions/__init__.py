"""The functions of row logic, and what each engine runs for them."""
