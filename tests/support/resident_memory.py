"""How much memory does a process have in use, as the kernel counts it?"""

import re
from pathlib import Path

MB = 1 << 20


def resident_bytes(pid: int) -> int:
    """Only Linux tells."""
    status = Path(f"/proc/{pid}/status").read_text()
    (kilobytes,) = re.findall(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(kilobytes) * 1024
