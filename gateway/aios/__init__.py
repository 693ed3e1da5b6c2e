"""The AIOS wire: JSON-RPC 2.0, its events and its error codes."""
