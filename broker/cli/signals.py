"""The signals that shut a broker down cleanly, and the signal that logs its diagnostics.

SIGHUP shuts it down too, as it does a Java process, unless SIGHUP is ignored when the broker
starts, as under nohup.
"""

from __future__ import annotations

import signal

DIAGNOSTICS_SIGNAL = signal.SIGUSR1


def stop_signals() -> tuple[signal.Signals, ...]:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGTERM, signal.SIGINT)
    return (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
