"""How much is logged, by logger: what DescribeConfigs shows and IncrementalAlterConfigs changes.

Levels are named as log4j names them, since that is what tools send; the logger above all others is
``root``.  They last until the broker stops.

Owner: none; Python's logging has its own lock.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.broker.logs import TRACE
from odradek.controller.config_alterations import ConfigChange, Operation
from odradek.protocol.errors import InvalidConfig, InvalidRequest

ROOT = "root"

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def levels() -> dict[str, str]:
    """Of every logger, the one that counts, whether it is its own or inherited."""
    names = [ROOT, *sorted(logging.root.manager.loggerDict)]
    return {name: _word(_logger(name).getEffectiveLevel()) for name in names}


def change_levels(changes: Sequence[ConfigChange], *, validate_only: bool = False) -> None:
    """All of them or none; raises a KafkaError."""
    operations = [_checked(change) for change in changes]
    if validate_only:
        return
    for change, operation in zip(changes, operations, strict=True):
        level = logging.NOTSET if operation is Operation.DELETE else LEVELS[change.value or ""]
        _logger(change.name).setLevel(level)


def _checked(change: ConfigChange) -> Operation:
    known = [operation for operation in Operation if operation.value == change.config_operation]
    if known not in ([Operation.SET], [Operation.DELETE]):
        raise InvalidRequest(f"{change.name}: a level can only be set or deleted.")
    if change.name != ROOT and change.name not in logging.root.manager.loggerDict:
        raise InvalidConfig(f"There is no logger {change.name}.")
    if known == [Operation.DELETE]:
        if change.name == ROOT:
            raise InvalidRequest("The root logger must have a level.")
    elif change.value not in LEVELS:
        raise InvalidConfig(f"{change.name}={change.value}: must be one of {', '.join(LEVELS)}.")
    return known[0]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _word(level: int) -> str:
    """The most that is let through."""
    return next((word for word, lowest in LEVELS.items() if level >= lowest), "TRACE")
