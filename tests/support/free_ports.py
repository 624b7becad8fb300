"""Ports of this machine that nobody listens on.

They are taken from below the range that the kernel hands to outgoing connections, so that a port
cannot be taken by one between choosing it and listening on it, nor while its server restarts.

Nor can it be chosen by another process of a run, or of another run, before its server listens: who
has chosen one holds a lock, on a byte of a file that they all share, until the process ends.
"""

import fcntl
import os
import random
import socket
import tempfile

LOWEST, HIGHEST = 15_000, 32_000

# Its own generator: test plugins seed the shared one alike in every process of a run.
_choice = random.SystemRandom()
_shared = os.path.join(tempfile.gettempdir(), f"odradek-test-ports-{os.getuid()}")
_locks = os.open(_shared, os.O_CREAT | os.O_RDWR)
#: Here a lock would keep out nobody.
_chosen: set[int] = set()


def free_port() -> int:
    while True:
        port = _choice.randint(LOWEST, HIGHEST)
        if port not in _chosen and _is_locked(port) and _is_free(port):
            _chosen.add(port)
            return port


def _is_locked(port: int) -> bool:
    try:
        fcntl.lockf(_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
