"""Logger levels, which DescribeConfigs shows and IncrementalAlterConfigs changes.

Kafka: Log4jController.  Levels have the names of log4j, because tools send those.  The root logger
is ``root``.  A changed level lasts until the broker stops.

Owner: none; Python's logging has its own lock.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.broker.logging_setup import TRACE
from odradek.controller.config_alterations import AlterConfigOp, IncrementalAlterableConfig
from odradek.protocol.errors import InvalidConfig, InvalidRequest

ROOT_LOGGER = "root"

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def effective_levels() -> dict[str, str]:
    """Return the effective level of every logger, set or inherited."""
    names = [ROOT_LOGGER, *sorted(logging.root.manager.loggerDict)]
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in names}


def alter_levels(
    changes: Sequence[IncrementalAlterableConfig], *, validate_only: bool = False
) -> None:
    """Apply all changes or none; raises a KafkaError."""
    operations = [_validate(change) for change in changes]
    if validate_only:
        return
    for change, operation in zip(changes, operations, strict=True):
        level = logging.NOTSET if operation is AlterConfigOp.DELETE else LEVELS[change.value or ""]
        _logger(change.name).setLevel(level)


def _validate(change: IncrementalAlterableConfig) -> AlterConfigOp:
    operations = [
        operation for operation in AlterConfigOp if operation.value == change.config_operation
    ]
    if operations not in ([AlterConfigOp.SET], [AlterConfigOp.DELETE]):
        raise InvalidRequest(f"{change.name}: a level can only be set or deleted.")
    if change.name != ROOT_LOGGER and change.name not in logging.root.manager.loggerDict:
        raise InvalidConfig(f"Logger {change.name} does not exist!")
    if operations == [AlterConfigOp.DELETE]:
        if change.name == ROOT_LOGGER:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
    elif change.value not in LEVELS:
        raise InvalidConfig(f"{change.name}={change.value}: must be one of {', '.join(LEVELS)}.")
    return operations[0]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT_LOGGER else name)


def _level_name(level: int) -> str:
    """Return the log4j name of the most verbose level that passes."""
    return next((name for name, minimum in LEVELS.items() if level >= minimum), "TRACE")
