"""Protobuf <-> domain, one module a noun. No other module of the daemon touches messages."""
