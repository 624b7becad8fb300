"""How the broker writes its own log: one line for each event, to standard error.

    2026-11-16 13:55:01,234 INFO broker.server: Broker 0 of cluster ... is running

A level is for everything, or for a logger and those below it: ``info``, ``controller=debug``.  The
requests themselves are logged at ``request=trace``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

#: Below DEBUG: every request, for one.
TRACE = 5
PREFIX = "odradek."
LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class BadLevel(Exception):
    """Not a level; the message says what is."""


class _Lines(logging.Formatter):
    """Every logger is one of ours, and so our name is not told each time."""

    def format(self, record: logging.LogRecord) -> str:
        record.name = record.name.removeprefix(PREFIX)
        return super().format(record)


def set_up(levels: Iterable[str]) -> None:
    """Of two levels for the same logger the later counts.  Raises BadLevel."""
    logging.addLevelName(TRACE, "TRACE")
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # What it says of connections and sessions our store says too, and not again every second.
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    for written in levels:
        name, _, level = written.rpartition("=")
        if level.lower() not in LEVELS:
            raise BadLevel(f"{written}: a level is one of {', '.join(LEVELS)}")
        logging.getLogger(PREFIX + name if name else None).setLevel(LEVELS[level.lower()])
