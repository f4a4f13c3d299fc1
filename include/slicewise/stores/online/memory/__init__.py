"""A store in memory, for the simulator and unit tests.

Doors: MemoryServer, open_memory.
"""
