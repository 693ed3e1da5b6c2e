"""What the strict decoder costs against the one of the standard library, on a request of 1 KB."""

from __future__ import annotations

import json
import timeit

from gateway import strict_json

CALL = {
    "jsonrpc": "2.0",
    "id": "req-1",
    "method": "aios/task.create",
    "params": {
        "capability_id": "lab.script",
        "arguments": {"steps": [{"sleep_ms": 10, "log": "x" * 40} for _ in range(11)]},
        "options": {"async": True, "priority": "normal", "timeout_ms": 30000},
        "metadata": {"who": "bench", "ratio": 0.25},
    },
}


def main() -> None:
    """Print both costs and their ratio, the best of ten rounds."""
    raw = json.dumps(CALL).encode()
    ours = min(timeit.repeat(lambda: strict_json.loads(raw), number=1000, repeat=10)) / 1000
    theirs = min(timeit.repeat(lambda: json.loads(raw), number=1000, repeat=10)) / 1000
    print(
        f"strict {ours * 1e6:.1f} us, json {theirs * 1e6:.1f} us, ratio {ours / theirs:.1f},"
        f" {len(raw)} bytes"
    )


if __name__ == "__main__":
    main()
