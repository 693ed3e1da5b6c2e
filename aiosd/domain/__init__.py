"""Rules: frozen values and pure functions. No I/O, clock, chance, protobuf or event loop.

Times are milliseconds since the Unix epoch (UTC) and come in as arguments; JSON payloads are
opaque text.
"""
