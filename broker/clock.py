"""The system's clock: what storage and the controller are handed, and nobody else reads.

Durations are measured on the event loop's clock, which never jumps.

Owner: none; any thread.
"""

import time


def now_ms() -> int:
    """Since 1970, as records and answers have it."""
    return time.time_ns() // 1_000_000
