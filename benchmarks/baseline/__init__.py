"""The recipe that people use today, written as well as it can be while it stays that recipe."""
