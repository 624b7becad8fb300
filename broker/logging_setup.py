"""Format, levels and logger names of the broker's log: one line per event, to standard error.

    2026-11-16 13:55:01,234 INFO kafka.server: Broker 0 of cluster ... started

Loggers have Kafka's names (``kafka.controller``, ``state.change.logger``), whatever module they are
in, so that operators can keep their log alerts and levels.  docs/operations.md lists them.

A level is for everything, or for a logger and those below it: ``info``, ``kafka.controller=debug``.
Requests are logged at ``kafka.request.logger=trace``, or ``request=trace`` for short.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

#: Below DEBUG, for every request.
TRACE = 5
#: Short names for loggers in ``--log-level``.
LOGGER_ALIASES = {
    "request": "kafka.request.logger",
    "controller": "kafka.controller",
    "broker": "kafka.server",
    "network": "kafka.network",
    "storage": "kafka.log",
}
LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class InvalidLogLevel(Exception):
    """The text is not a log level; the message lists the levels."""


def configure_logging(levels: Iterable[str]) -> None:
    """If a logger is named twice, its last level is used.  Raises InvalidLogLevel."""
    logging.addLevelName(TRACE, "TRACE")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # The store reports connections and sessions itself, and does not repeat it every second.
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    for option in levels:
        name, _, level = option.rpartition("=")
        if level.lower() not in LEVELS:
            raise InvalidLogLevel(f"{option}: a level is one of {', '.join(LEVELS)}")
        logging.getLogger(LOGGER_ALIASES.get(name, name) or None).setLevel(LEVELS[level.lower()])
