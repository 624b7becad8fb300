"""Refusals: what number they carry, what they say, and that they travel between processes."""

import copy
import pickle

import pytest

from odradek.protocol import errors
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    CorruptMessage,
    DecodeError,
    EncodeError,
    KafkaError,
    KafkaStorageError,
    NotLeader,
    OffsetOutOfRange,
    code_of,
    error_for,
)

REFUSALS = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, KafkaError) and cls is not KafkaError
]


class DirectoryOffline(KafkaStorageError):
    def __init__(self, directory, *, reason):
        super().__init__(f"{directory}: {reason}")
        self.directory = directory


def test_a_refusal_speaks_its_codes_sentence_unless_told_otherwise():
    assert str(NotLeader()) == ErrorCode.NOT_LEADER_OR_FOLLOWER.message
    assert str(NotLeader("broker 3 leads it")) == "broker 3 leads it"


def test_no_two_classes_stand_for_one_code():
    assert len({cls.error for cls in REFUSALS}) == len(REFUSALS)


def test_no_class_stands_for_success():
    assert ErrorCode.NONE not in {cls.error for cls in REFUSALS}


@pytest.mark.parametrize("cls", REFUSALS)
def test_a_class_is_named_after_its_code(cls):
    short = {"NotLeader": "NotLeaderOrFollower", "InvalidTopic": "InvalidTopicException"}
    name = cls.error.name.replace("_", "").lower()
    assert short.get(cls.__name__, cls.__name__).lower() == name


@pytest.mark.parametrize("cls", REFUSALS)
def test_every_refusal_survives_pickling(cls):
    failure = cls("because")
    twin = pickle.loads(pickle.dumps(failure))
    assert type(twin) is cls
    assert (str(twin), twin.message, twin.error) == ("because", "because", cls.error)


@pytest.mark.parametrize("failure", [DecodeError("17 bytes left over"), EncodeError("topic: null")])
def test_broken_bytes_and_unwritable_values_survive_pickling(failure):
    twin = pickle.loads(pickle.dumps(failure))
    assert type(twin) is type(failure)
    assert str(twin) == str(failure)


@pytest.mark.parametrize("travel", [copy.copy, lambda failure: pickle.loads(pickle.dumps(failure))])
def test_a_subclass_with_other_arguments_survives_pickling_and_copying(travel):
    twin = travel(DirectoryOffline("logs-1", reason="disk full"))
    assert type(twin) is DirectoryOffline
    assert str(twin) == "logs-1: disk full"
    assert twin.directory == "logs-1"
    assert code_of(twin) == 56


def test_a_code_without_a_class_survives_pickling():
    twin = pickle.loads(pickle.dumps(KafkaError(error=ErrorCode.SNAPSHOT_NOT_FOUND)))
    assert code_of(twin) == 98
    assert str(twin) == ErrorCode.SNAPSHOT_NOT_FOUND.message


def test_a_damaged_batch_is_both_broken_bytes_and_a_refusal():
    failure = CorruptMessage("checksum")
    assert isinstance(failure, DecodeError)
    assert isinstance(failure, KafkaError)
    assert code_of(failure) == 2


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (None, 0),
        (OffsetOutOfRange(), 1),
        (DirectoryOffline("logs-1", reason="gone"), 56),
        (KafkaError(), -1),
        (DecodeError("cut short"), -1),
        (ZeroDivisionError(), -1),
        (KeyboardInterrupt(), -1),
    ],
)
def test_every_outcome_has_a_number(failure, code):
    assert code_of(failure) == code


@pytest.mark.parametrize("error", [error for error in ErrorCode if error is not ErrorCode.NONE])
def test_another_brokers_number_comes_back_as_a_refusal_of_that_number(error):
    failure = error_for(error.code)
    assert code_of(failure) == error.code
    assert str(failure) == error.message


def test_another_brokers_words_are_kept():
    failure = error_for(6, "moved to broker 3")
    assert type(failure) is NotLeader
    assert str(failure) == "moved to broker 3"


def test_a_subclass_does_not_displace_the_class_that_stands_for_its_code():
    assert type(error_for(56)) is KafkaStorageError


def test_another_brokers_success_is_no_failure():
    assert error_for(0) is None


def test_a_number_from_the_future_is_an_unknown_failure():
    assert code_of(error_for(999, "what?")) == -1
