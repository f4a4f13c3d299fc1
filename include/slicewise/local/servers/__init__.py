"""The embedded servers: processes, ports, state, supervision."""
