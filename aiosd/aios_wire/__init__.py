"""How the AIOS wire writes the contract: words, errors, moments, events.

Shared by the gateway, which answers calls, and the daemon, which posts webhooks (ADR 0010). On
aiosd.api and the standard library only.
"""
