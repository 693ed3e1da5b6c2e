"""The gateway: every other wire of a task, projected from the daemon's gRPC contract."""
