"""Tables of a user: spines, files and given events, typed or refused by row."""
