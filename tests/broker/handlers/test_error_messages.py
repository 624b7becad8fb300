"""Tests of broker/handlers/error_messages.py."""

from odradek.broker.handlers.error_messages import error_message
from odradek.protocol.errors import InvalidTopic, KafkaError


def test_message_of_the_error_is_returned():
    assert error_message(InvalidTopic("No such name.")) == "No such name."


def test_error_without_its_own_message_returns_none():
    assert error_message(InvalidTopic()) is None
    assert error_message(None) is None


def test_long_message_is_truncated():
    message = error_message(InvalidTopic("x" * 40_000))
    assert message == "x" * 2000 + "..."


def test_message_of_an_internal_error_is_not_returned():
    assert error_message(KafkaError("The disk has no room for /var/secret.")) is None
