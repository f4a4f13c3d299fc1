"""The embedded servers: processes, ports, state, supervision.

Doors: supervisor, stream, services.
"""
