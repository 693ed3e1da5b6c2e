"""`python -m aiosd`."""

from __future__ import annotations

from aiosd.cli import main

raise SystemExit(main())
