"""A2A 1.0 over JSON-RPC, REST and gRPC: the official SDK's wire, this service's tasks."""
