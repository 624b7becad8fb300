"""Damaged frames are read or refused by a DecodeError, in time and memory that they account for.

200,000 frames in a run, always the same.  Two variables of the environment change that:

    ODRADEK_FUZZ_FRAMES=5000000    more of them
    ODRADEK_FUZZ_SEED=7            others

A failure names subject, seed and frame in a note below its traceback.
"""

import os

import pytest

from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.errors import DecodeError, EncodeError
from tests.support.all_messages import all_messages
from tests.support.fuzzed_records import DAMAGED_RECORDS
from tests.support.fuzzing import (
    SLOWEST_KEPT,
    Sample,
    Subject,
    fuzz,
    greediest,
    message_subject,
    mutated_samples,
    record_subject,
)
from tests.support.memory import kept_bytes

FRAMES = int(os.environ.get("ODRADEK_FUZZ_FRAMES", "200000"))
SEED = int(os.environ.get("ODRADEK_FUZZ_SEED", "0"))

SHARE_OF_MESSAGES = 0.75
FRAMES_OF_A_MESSAGE = -int(-FRAMES * SHARE_OF_MESSAGES // len(all_messages()))
FRAMES_OF_A_RECORD_SET = -int(-FRAMES * (1 - SHARE_OF_MESSAGES) // len(DAMAGED_RECORDS))

of_every_message = pytest.mark.parametrize(
    "message", all_messages(), ids=lambda message: message.__name__
)
of_every_record_set = pytest.mark.parametrize("name", DAMAGED_RECORDS)


def test_a_run_has_as_many_frames_as_were_asked_for():
    frames = FRAMES_OF_A_MESSAGE * len(all_messages())
    frames += FRAMES_OF_A_RECORD_SET * len(DAMAGED_RECORDS)
    assert frames >= FRAMES


@of_every_message
def test_a_damaged_message_is_read_or_refused(message):
    subject = message_subject(message)
    report = fuzz(subject, seed=SEED, count=FRAMES_OF_A_MESSAGE)
    assert report.refused
    assert greediest(subject, seed=SEED, count=FRAMES_OF_A_MESSAGE) is None


@of_every_record_set
def test_a_damaged_record_set_is_read_or_refused(name):
    subject = record_subject(name)
    fuzz(subject, seed=SEED, count=FRAMES_OF_A_RECORD_SET)
    assert greediest(subject, seed=SEED, count=FRAMES_OF_A_RECORD_SET) is None


@pytest.mark.parametrize("message", [ProduceRequest, MetadataRequest, FetchResponse])
def test_refused_messages_leave_nothing_behind(message):
    subject = message_subject(message)
    fuzz(subject, seed=SEED, count=500)
    assert kept_bytes(lambda: fuzz(subject, seed=SEED, count=500)) < 20_000


@pytest.mark.parametrize("name", ["records, NONE", "magic 1, GZIP", "magic 2, LZ4"])
def test_refused_record_sets_leave_nothing_behind(name):
    subject = record_subject(name)
    fuzz(subject, seed=SEED, count=500)
    assert kept_bytes(lambda: fuzz(subject, seed=SEED, count=500)) < 20_000


@of_every_message
def test_what_was_read_of_a_damaged_message_can_be_written_and_read_again(message):
    for version, frame in damaged_but_read(message):
        try:
            written = encode_bytes(decode(message, version, frame), version)
        except EncodeError as refusal:
            # The one thing that may be read but not written.
            assert "given twice" in str(refusal)  # noqa: PT017
            continue
        assert encode_bytes(decode(message, version, written), version) == written


def damaged_but_read(message):
    for sample in mutated_samples(message_subject(message), seed=SEED, count=200):
        version = sample.read.args[1]
        try:
            sample.read(sample.frame)
        except DecodeError:
            continue
        yield version, sample.frame


class TestTheFuzzerItself:
    def test_one_seed_gives_the_same_frames_every_time(self):
        subject = message_subject(ProduceRequest)
        first, second = (
            [sample.frame for sample in mutated_samples(subject, seed=3, count=50)]
            for _ in range(2)
        )
        assert first == second
        others = [sample.frame for sample in mutated_samples(subject, seed=4, count=50)]
        assert first != others

    def test_a_failure_says_how_to_repeat_it(self):
        def broken(frame):
            assert frame == b"sound"

        subject = Subject("Broken", (Sample(b"sound", broken),))
        with pytest.raises(AssertionError) as caught:
            fuzz(subject, seed=9, count=1)
        assert caught.value.__notes__[0].startswith("Broken, seed 9, frame 0: ")

    def test_greed_is_noticed(self):
        def greedy(frame):
            return [bytes(1000) for _ in range(1000)]

        subject = Subject("Greedy", (Sample(b"frame", greedy),))
        frame, needed = greediest(subject, seed=0, count=1)
        assert needed > subject.peak_bytes_max(frame)

    def test_some_damaged_frames_are_read_and_some_refused(self):
        report = fuzz(message_subject(ProduceRequest), seed=0, count=500)
        assert 50 < report.refused < 450
        assert len(report.slowest) == SLOWEST_KEPT
        assert all(seconds > 0 for seconds, _, _ in report.slowest)
