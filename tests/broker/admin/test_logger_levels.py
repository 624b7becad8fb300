"""Reading and changing the levels of loggers."""

import logging

import pytest

from odradek.broker.admin.logger_levels import (
    LEVELS,
    ROOT_LOGGER,
    TRACE,
    alter_levels,
    effective_levels,
)
from odradek.controller.config_alterations import AlterConfigOp, IncrementalAlterableConfig
from odradek.protocol.errors import InvalidConfig, InvalidRequest

NAME = "odradek.tests.of.levels"


@pytest.fixture(autouse=True)
def _levels_as_before():
    root = logging.getLogger()
    before = root.level
    logging.getLogger(NAME)
    yield
    root.setLevel(before)
    logging.getLogger(NAME).setLevel(logging.NOTSET)


def change(name, level, operation=AlterConfigOp.SET):
    return IncrementalAlterableConfig(name=name, config_operation=operation.value, value=level)


@pytest.mark.parametrize("level", LEVELS)
def test_level_is_set_and_described(level):
    alter_levels([change(NAME, level)])
    assert effective_levels()[NAME] == level
    assert logging.getLogger(NAME).level == LEVELS[level]


def test_deleted_level_is_inherited_from_the_parent_logger():
    alter_levels([change(NAME, "DEBUG"), change(ROOT_LOGGER, "ERROR")])
    alter_levels([change(NAME, None, AlterConfigOp.DELETE)])
    assert (effective_levels()[NAME], effective_levels()[ROOT_LOGGER]) == ("ERROR", "ERROR")


def test_level_between_two_is_described_as_the_lower_one():
    logging.getLogger(NAME).setLevel(logging.INFO + 5)
    assert effective_levels()[NAME] == "INFO"
    logging.getLogger(NAME).setLevel(TRACE - 1)
    assert effective_levels()[NAME] == "TRACE"


def test_package_is_a_logger_even_if_nothing_logs_to_it():
    alter_levels([change("odradek.tests", "TRACE")])
    assert effective_levels()[NAME] == "TRACE"
    alter_levels([change("odradek.tests", None, AlterConfigOp.DELETE)])


@pytest.mark.parametrize(
    ("invalid", "error"),
    [
        (change(NAME, "LOUD"), InvalidConfig),
        (change(NAME, "debug"), InvalidConfig),
        (change("no.such.logger", "DEBUG"), InvalidConfig),
        (change(ROOT_LOGGER, None, AlterConfigOp.DELETE), InvalidRequest),
        (change(NAME, "DEBUG", AlterConfigOp.APPEND), InvalidRequest),
        (IncrementalAlterableConfig(name=NAME, config_operation=9, value="DEBUG"), InvalidRequest),
    ],
)
def test_one_invalid_change_rejects_all(invalid, error):
    before = effective_levels()[NAME]
    with pytest.raises(error):
        alter_levels([change(NAME, "FATAL"), invalid])
    assert effective_levels()[NAME] == before


def test_validate_only_change_has_no_effect():
    before = effective_levels()[NAME]
    alter_levels([change(NAME, "FATAL")], validate_only=True)
    assert effective_levels()[NAME] == before
