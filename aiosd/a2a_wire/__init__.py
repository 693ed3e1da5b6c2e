"""The A2A wire's words and what recurs in its messages, as ProtoJSON, from `aiosd.api` alone.

Shared by the gateway's streams and the daemon's push notifications, so that the two cannot differ.
The SDK of A2A is the gateway's.
"""
