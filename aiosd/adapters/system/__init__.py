"""The operating system: clock, ids, files and locks, readiness, log lines."""
