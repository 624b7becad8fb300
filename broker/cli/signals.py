"""The signals that stop a broker cleanly.

SIGHUP too, as it stops a Java process, unless whoever started the broker had it ignored, as nohup
does.
"""

from __future__ import annotations

import signal


def stopping() -> tuple[signal.Signals, ...]:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGTERM, signal.SIGINT)
    return (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
