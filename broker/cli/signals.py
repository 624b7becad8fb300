"""The signals that stop a broker cleanly, and the one that makes it tell what it has in hand.

SIGHUP stops it too, as it stops a Java process, unless whoever started the broker had it ignored,
as nohup does.
"""

from __future__ import annotations

import signal

DIAGNOSTICS_SIGNAL = signal.SIGUSR1


def stop_signals() -> tuple[signal.Signals, ...]:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGTERM, signal.SIGINT)
    return (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
