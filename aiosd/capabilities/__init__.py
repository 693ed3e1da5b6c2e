"""The capabilities that come with aiosd, each a module with `register(provider)`.

They are ordinary users of the public provider SDK: what they can do, any program can do.
`aiosd.capabilities.provide` runs them as a process.
"""

from __future__ import annotations
