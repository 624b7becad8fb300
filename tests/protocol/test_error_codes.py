"""The table of error codes, against what the Java client of Kafka 4.1.1 says of each."""

import pytest

from odradek.protocol.error_codes import ErrorCode

# From its Errors enum: which exceptions are RetriableException, which InvalidMetadataException.
RETRIABLE = {
    *(2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84),
    *(88, 89, 100, 103, 106, 122, 123, 133),
}
REFRESHES_METADATA = {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}


def test_the_codes_are_consecutive_and_in_order():
    assert [error.code for error in ErrorCode] == list(range(-1, 134))


def test_clients_retry_exactly_what_the_java_client_retries():
    assert {error.code for error in ErrorCode if error.retriable} == RETRIABLE


def test_clients_refresh_metadata_exactly_where_the_java_client_does():
    assert {error.code for error in ErrorCode if error.refreshes_metadata} == REFRESHES_METADATA


def test_each_failure_has_a_sentence_of_its_own():
    messages = [error.message for error in ErrorCode if error is not ErrorCode.NONE]
    assert len(set(messages)) == len(messages)
    assert all(message.endswith(".") for message in messages)


def test_success_says_nothing():
    assert ErrorCode.NONE.message == ""


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (0, ErrorCode.NONE),
        (-1, ErrorCode.UNKNOWN_SERVER_ERROR),
        (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (74, ErrorCode.FENCED_LEADER_EPOCH),
        (133, ErrorCode.SHARE_SESSION_LIMIT_REACHED),
    ],
)
def test_a_number_names_its_error(code, error):
    assert ErrorCode.of(code) is error


@pytest.mark.parametrize("code", [-32768, -2, 134, 32767])
def test_a_number_from_the_future_is_an_unknown_error(code):
    assert ErrorCode.of(code) is ErrorCode.UNKNOWN_SERVER_ERROR
