"""`python -m aiosd.ctl`."""

from __future__ import annotations

import sys

from aiosd.ctl import main

sys.exit(main())
