"""Ports of this machine that nobody listens on.

They are taken from below the range that the kernel hands to outgoing connections, so that a port
cannot be taken by one between choosing it and listening on it, nor while its server restarts.
"""

import random
import socket

LOWEST, HIGHEST = 15_000, 32_000

# Its own generator: test plugins seed the shared one alike in every process of a run.
_choice = random.SystemRandom()


def free_port() -> int:
    while True:
        port = _choice.randint(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
