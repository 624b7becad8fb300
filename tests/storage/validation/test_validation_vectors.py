"""Record sets of all kinds: our answers are those that a real Kafka 3.9.1 broker gave."""

import pytest

from tests.support.produce_answers import saved_answers
from tests.support.replayed_produce import (
    DIFFERENCES,
    STORED_OTHERWISE,
    Replayed,
    stored_facts,
)

ANSWERS = {answer.name: answer for answer in saved_answers()}
ALIKE = [name for name in ANSWERS if name not in DIFFERENCES]
TAKEN_ALIKE = [name for name in ALIKE if ANSWERS[name].stored and name not in STORED_OTHERWISE]


@pytest.mark.parametrize("name", ALIKE)
def test_the_error_and_the_records_it_names_are_kafkas(name):
    replayed = Replayed(ANSWERS[name])
    assert replayed.error_code == ANSWERS[name].error_code
    assert replayed.bad_records == ANSWERS[name].bad_records


@pytest.mark.parametrize("name", TAKEN_ALIKE)
def test_what_is_written_is_what_kafka_wrote(name):
    ours, kafkas = Replayed(ANSWERS[name]).stored, ANSWERS[name].stored
    assert ours == kafkas or stored_facts(ours) == stored_facts(kafkas)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_meant(name):
    code = DIFFERENCES[name].code
    assert Replayed(ANSWERS[name]).error_code == code
    assert ANSWERS[name].error_code != code


@pytest.mark.parametrize("name", STORED_OTHERWISE)
def test_a_largest_timestamp_that_overstates_is_kept(name):
    assert Replayed(ANSWERS[name]).stored[:35] != ANSWERS[name].stored[:35]
    assert Replayed(ANSWERS[name]).stored[43:] == ANSWERS[name].stored[43:]


def test_every_difference_was_recorded():
    assert {*DIFFERENCES, *STORED_OTHERWISE} <= set(ANSWERS)
