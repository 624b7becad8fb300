"""Tests of broker/handlers/refusals.py."""

from odradek.broker.handlers.refusals import words
from odradek.protocol.errors import InvalidTopic, KafkaError


def test_a_failure_is_told_in_its_words():
    assert words(InvalidTopic("No such name.")) == "No such name."


def test_what_the_code_says_is_not_said_again():
    assert words(InvalidTopic()) is None
    assert words(None) is None


def test_of_too_many_words_the_first_are_told():
    told = words(InvalidTopic("x" * 40_000))
    assert told == "x" * 2000 + "..."


def test_mistakes_of_our_own_are_not_told():
    assert words(KafkaError("The disk has no room for /var/secret.")) is None
