"""Validation results for recorded record sets equal those of a real Kafka 3.9.1 broker."""

import pytest

from tests.support.produce_answers import saved_answers
from tests.support.replayed_produce import (
    DIFFERENCES,
    STORED_OTHERWISE,
    Replayed,
    stored_facts,
)

RESPONSES = {response.name: response for response in saved_answers()}
SAME_RESULT = [name for name in RESPONSES if name not in DIFFERENCES]
STORED_THE_SAME = [
    name for name in SAME_RESULT if RESPONSES[name].stored and name not in STORED_OTHERWISE
]


@pytest.mark.parametrize("name", SAME_RESULT)
def test_error_and_reported_records_match_kafka(name):
    replayed = Replayed(RESPONSES[name])
    assert replayed.error_code == RESPONSES[name].error_code
    assert replayed.bad_records == RESPONSES[name].bad_records


@pytest.mark.parametrize("name", STORED_THE_SAME)
def test_stored_bytes_match_kafka(name):
    ours, kafkas = Replayed(RESPONSES[name]).stored, RESPONSES[name].stored
    assert ours == kafkas or stored_facts(ours) == stored_facts(kafkas)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_intended_differences_from_kafka(name):
    code = DIFFERENCES[name].code
    assert Replayed(RESPONSES[name]).error_code == code
    assert RESPONSES[name].error_code != code


@pytest.mark.parametrize("name", STORED_OTHERWISE)
def test_too_large_max_timestamp_is_kept(name):
    assert Replayed(RESPONSES[name]).stored[:35] != RESPONSES[name].stored[:35]
    assert Replayed(RESPONSES[name]).stored[43:] == RESPONSES[name].stored[43:]


def test_every_difference_was_recorded():
    assert {*DIFFERENCES, *STORED_OTHERWISE} <= set(RESPONSES)
