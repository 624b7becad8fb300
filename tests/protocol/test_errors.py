"""Kafka errors: their codes, their messages and pickling."""

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
    NotLeaderOrFollower,
    OffsetOutOfRange,
    code_of,
    error_for,
)

ERROR_CLASSES = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, KafkaError) and cls is not KafkaError
]


class DirectoryOffline(KafkaStorageError):
    def __init__(self, directory, *, reason):
        super().__init__(f"{directory}: {reason}")
        self.directory = directory


def test_default_message_is_that_of_the_error_code():
    assert str(NotLeaderOrFollower()) == ErrorCode.NOT_LEADER_OR_FOLLOWER.message
    assert str(NotLeaderOrFollower("broker 3 leads it")) == "broker 3 leads it"


def test_every_class_has_a_unique_code():
    assert len({cls.error_code for cls in ERROR_CLASSES}) == len(ERROR_CLASSES)


def test_no_class_has_the_code_none():
    assert ErrorCode.NONE not in {cls.error_code for cls in ERROR_CLASSES}


@pytest.mark.parametrize("cls", ERROR_CLASSES)
def test_class_is_named_after_its_code(cls):
    short = {"NotLeader": "NotLeaderOrFollower", "InvalidTopic": "InvalidTopicException"}
    name = cls.error_code.name.replace("_", "").lower()
    assert short.get(cls.__name__, cls.__name__).lower() == name


@pytest.mark.parametrize("cls", ERROR_CLASSES)
def test_every_error_survives_pickling(cls):
    exception = cls("because")
    copied = pickle.loads(pickle.dumps(exception))
    assert type(copied) is cls
    assert (str(copied), copied.message, copied.error_code) == (
        "because",
        "because",
        cls.error_code,
    )


@pytest.mark.parametrize(
    "exception", [DecodeError("17 bytes left over"), EncodeError("topic: null")]
)
def test_decode_and_encode_errors_survive_pickling(exception):
    copied = pickle.loads(pickle.dumps(exception))
    assert type(copied) is type(exception)
    assert str(copied) == str(exception)


@pytest.mark.parametrize(
    "copy_exception", [copy.copy, lambda exception: pickle.loads(pickle.dumps(exception))]
)
def test_subclass_with_other_arguments_survives_pickling_and_copying(copy_exception):
    copied = copy_exception(DirectoryOffline("logs-1", reason="disk full"))
    assert type(copied) is DirectoryOffline
    assert str(copied) == "logs-1: disk full"
    assert copied.directory == "logs-1"
    assert code_of(copied) == 56


def test_code_without_a_class_survives_pickling():
    copied = pickle.loads(pickle.dumps(KafkaError(error_code=ErrorCode.SNAPSHOT_NOT_FOUND)))
    assert code_of(copied) == 98
    assert str(copied) == ErrorCode.SNAPSHOT_NOT_FOUND.message


def test_corrupt_message_is_a_decode_error_and_a_kafka_error():
    exception = CorruptMessage("checksum")
    assert isinstance(exception, DecodeError)
    assert isinstance(exception, KafkaError)
    assert code_of(exception) == 2


@pytest.mark.parametrize(
    ("exception", "code"),
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
def test_every_exception_has_an_error_code(exception, code):
    assert code_of(exception) == code


@pytest.mark.parametrize("error", [error for error in ErrorCode if error is not ErrorCode.NONE])
def test_error_for_a_code_has_that_code(error):
    exception = error_for(error.code)
    assert code_of(exception) == error.code
    assert str(exception) == error.message


def test_error_for_a_code_keeps_the_given_message():
    exception = error_for(6, "moved to broker 3")
    assert type(exception) is NotLeaderOrFollower
    assert str(exception) == "moved to broker 3"


def test_subclass_does_not_replace_the_class_of_its_code():
    assert type(error_for(56)) is KafkaStorageError


def test_there_is_no_error_for_success():
    assert error_for(0) is None


def test_error_for_an_unknown_code_is_unknown_server_error():
    assert code_of(error_for(999, "what?")) == -1
