"""A running Kafka 3.9 broker answers record sets as the recorded one did, and stores the same."""

import pytest

from tests.interop.record_validation import record
from tests.interop.validation_cases import cases
from tests.support.produce_answers import saved_answers
from tests.support.replayed_produce import (
    DIFFERENCES,
    STORED_OTHERWISE,
    Replayed,
    stored_facts,
)

NAMES = [case.name for case in cases()]
SAVED = {answer.name: answer for answer in saved_answers()}


@pytest.fixture(scope="session")
def answers(kafka_39):
    return {answer.name: answer for answer in record(kafka_39, cases())}


@pytest.fixture(params=NAMES)
def answer(request, answers):
    return answers[request.param]


def test_kafka_answers_as_it_did(answer):
    saved = SAVED[answer.name]
    assert (answer.error_code, answer.bad_records) == (saved.error_code, saved.bad_records)


def test_we_answer_as_kafka_does(answer):
    if answer.name in DIFFERENCES:
        assert Replayed(answer).error_code == DIFFERENCES[answer.name].code
    else:
        replayed = Replayed(answer)
        assert replayed.error_code == answer.error_code
        assert replayed.bad_records == answer.bad_records


@pytest.mark.parametrize(
    "answer",
    [name for name in NAMES if name not in {*DIFFERENCES, *STORED_OTHERWISE}],
    indirect=True,
)
def test_we_write_what_kafka_writes(answer):
    ours = Replayed(answer).stored
    assert ours == answer.stored or stored_facts(ours) == stored_facts(answer.stored)
