"""How much memory does a process have in use, as the kernel counts it?"""

import re
import time
from collections.abc import Callable
from pathlib import Path

MB = 1 << 20
#: What a broker may keep of what it was made to take.
KEPT_BYTES_MAX = 32 * MB
SETTLE_S = 15


def resident_bytes(pid: int) -> int:
    """Only Linux tells."""
    status = Path(f"/proc/{pid}/status").read_text()
    (kilobytes,) = re.findall(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(kilobytes) * 1024


def wait_for(is_so: Callable[[], bool], *, timeout_s: float = SETTLE_S) -> None:
    """For as long as memory may take to settle."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
