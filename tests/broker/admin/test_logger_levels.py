"""Tests of broker/admin/logger_levels.py."""

import logging

import pytest

from odradek.broker.admin.logger_levels import LEVELS, ROOT, TRACE, change_levels, levels
from odradek.controller.config_alterations import ConfigChange, Operation
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


def change(name, level, operation=Operation.SET):
    return ConfigChange(name=name, config_operation=operation.value, value=level)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_set_and_shown(level):
    change_levels([change(NAME, level)])
    assert levels()[NAME] == level
    assert logging.getLogger(NAME).level == LEVELS[level]


def test_a_deleted_level_is_that_of_the_logger_above():
    change_levels([change(NAME, "DEBUG"), change(ROOT, "ERROR")])
    change_levels([change(NAME, None, Operation.DELETE)])
    assert (levels()[NAME], levels()[ROOT]) == ("ERROR", "ERROR")


def test_a_level_between_two_is_the_stricter_of_what_it_lets_through():
    logging.getLogger(NAME).setLevel(logging.INFO + 5)
    assert levels()[NAME] == "INFO"
    logging.getLogger(NAME).setLevel(TRACE - 1)
    assert levels()[NAME] == "TRACE"


def test_a_package_is_a_logger_though_nothing_logs_to_it():
    change_levels([change("odradek.tests", "TRACE")])
    assert levels()[NAME] == "TRACE"
    change_levels([change("odradek.tests", None, Operation.DELETE)])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (change(NAME, "LOUD"), InvalidConfig),
        (change(NAME, "debug"), InvalidConfig),
        (change("no.such.logger", "DEBUG"), InvalidConfig),
        (change(ROOT, None, Operation.DELETE), InvalidRequest),
        (change(NAME, "DEBUG", Operation.APPEND), InvalidRequest),
        (ConfigChange(name=NAME, config_operation=9, value="DEBUG"), InvalidRequest),
    ],
)
def test_one_mistake_changes_nothing(wrong, error):
    before = levels()[NAME]
    with pytest.raises(error):
        change_levels([change(NAME, "FATAL"), wrong])
    assert levels()[NAME] == before


def test_what_is_only_looked_at_is_not_changed():
    before = levels()[NAME]
    change_levels([change(NAME, "FATAL")], validate_only=True)
    assert levels()[NAME] == before
