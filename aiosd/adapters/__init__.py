"""The outside world behind the ports of `aiosd.application`, one room a technology."""
