"""Log levels and Kafka's logger names."""

import logging
import subprocess
import sys

import pytest

from odradek.broker.logging_setup import LEVELS, TRACE, InvalidLogLevel, configure_logging
from tests.support.broker_process import BrokerProcess


@pytest.fixture(autouse=True)
def restored_levels():
    """The levels that a test sets do not outlive it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("kafka", "kafka.controller", "kafka.request.logger", "state.change.logger"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("option", "name", "level"),
    [
        ("kafka.controller=debug", "kafka.controller", logging.DEBUG),
        ("controller=debug", "kafka.controller", logging.DEBUG),
        ("state.change.logger=error", "state.change.logger", logging.ERROR),
        ("request=trace", "kafka.request.logger", TRACE),
        ("warning", None, logging.WARNING),
    ],
)
def test_level_applies_to_a_kafka_logger_or_its_alias_or_to_all(option, name, level):
    configure_logging([option])
    assert logging.getLogger(name).level == level


def test_last_level_of_a_logger_wins():
    configure_logging(["kafka=error", "kafka=debug"])
    assert logging.getLogger("kafka").level == logging.DEBUG


def test_unknown_level_is_rejected_with_the_list_of_levels():
    with pytest.raises(InvalidLogLevel, match=f"kafka=loud: a level is one of {', '.join(LEVELS)}"):
        configure_logging(["kafka=loud"])


def test_log_line_has_time_level_logger_and_message():
    program = (
        "import logging; from odradek.broker.logging_setup import configure_logging; "
        "configure_logging(['info']); logging.getLogger('kafka.log').warning('full')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stderr.decode().split(" ", 2)[2] == "WARNING kafka.log: full\n"


def test_broker_logs_events_in_the_words_and_under_the_loggers_of_kafka(tmp_path):
    with BrokerProcess(tmp_path / "data", "broker.id=0") as broker:
        broker.start()
        log_text = broker.log_text
    assert "INFO kafka.controller: Broker 0 successfully elected as the controller. " in log_text
    assert "INFO state.change.logger: Sending UpdateMetadata request to brokers [0] " in log_text
    assert "INFO kafka.network: Awaiting socket connections on PLAINTEXT://127.0.0.1:" in log_text
