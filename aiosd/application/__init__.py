"""Use cases over ports: load, apply, commit, wake. Plain asyncio; no gRPC, SQL, HTTP or clock."""
