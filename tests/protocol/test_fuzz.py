"""Damaged frames are decoded or rejected with a DecodeError, within time and memory limits.

A run tests 200,000 frames, always the same. Two environment variables change that:

    ODRADEK_FUZZ_FRAMES=5000000    the number of frames
    ODRADEK_FUZZ_SEED=7            the random seed

A failure names the subject, the seed and the frame in a note below its traceback.
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

each_message = pytest.mark.parametrize(
    "message", all_messages(), ids=lambda message: message.__name__
)
each_record_set = pytest.mark.parametrize("name", DAMAGED_RECORDS)


def test_run_has_at_least_the_configured_number_of_frames():
    frames = FRAMES_OF_A_MESSAGE * len(all_messages())
    frames += FRAMES_OF_A_RECORD_SET * len(DAMAGED_RECORDS)
    assert frames >= FRAMES


@each_message
def test_damaged_message_is_decoded_or_rejected(message):
    subject = message_subject(message)
    report = fuzz(subject, seed=SEED, count=FRAMES_OF_A_MESSAGE)
    assert report.refused
    assert greediest(subject, seed=SEED, count=FRAMES_OF_A_MESSAGE) is None


@each_record_set
def test_damaged_record_set_is_read_or_rejected(name):
    subject = record_subject(name)
    fuzz(subject, seed=SEED, count=FRAMES_OF_A_RECORD_SET)
    assert greediest(subject, seed=SEED, count=FRAMES_OF_A_RECORD_SET) is None


@pytest.mark.parametrize("message", [ProduceRequest, MetadataRequest, FetchResponse])
def test_rejected_messages_leak_no_memory(message):
    subject = message_subject(message)
    fuzz(subject, seed=SEED, count=500)
    assert kept_bytes(lambda: fuzz(subject, seed=SEED, count=500)) < 20_000


@pytest.mark.parametrize("name", ["records, NONE", "magic 1, GZIP", "magic 2, LZ4"])
def test_rejected_record_sets_leak_no_memory(name):
    subject = record_subject(name)
    fuzz(subject, seed=SEED, count=500)
    assert kept_bytes(lambda: fuzz(subject, seed=SEED, count=500)) < 20_000


@each_message
def test_decoded_damaged_message_survives_a_round_trip(message):
    for version, frame in damaged_but_decodable(message):
        try:
            encoded = encode_bytes(decode(message, version, frame), version)
        except EncodeError as error:
            # Duplicate tags are the only input that can be decoded but not encoded.
            assert "given twice" in str(error)  # noqa: PT017
            continue
        assert encode_bytes(decode(message, version, encoded), version) == encoded


def damaged_but_decodable(message):
    for sample in mutated_samples(message_subject(message), seed=SEED, count=200):
        version = sample.read.args[1]
        try:
            sample.read(sample.frame)
        except DecodeError:
            continue
        yield version, sample.frame


class TestTheFuzzerItself:
    def test_same_seed_gives_the_same_frames(self):
        subject = message_subject(ProduceRequest)
        first, second = (
            [sample.frame for sample in mutated_samples(subject, seed=3, count=50)]
            for _ in range(2)
        )
        assert first == second
        others = [sample.frame for sample in mutated_samples(subject, seed=4, count=50)]
        assert first != others

    def test_failure_names_the_seed_and_the_frame(self):
        def broken(frame):
            assert frame == b"sound"

        subject = Subject("Broken", (Sample(b"sound", broken),))
        with pytest.raises(AssertionError) as caught:
            fuzz(subject, seed=9, count=1)
        assert caught.value.__notes__[0].startswith("Broken, seed 9, frame 0: ")

    def test_excessive_memory_use_is_detected(self):
        def greedy(frame):
            return [bytes(1000) for _ in range(1000)]

        subject = Subject("Greedy", (Sample(b"frame", greedy),))
        frame, needed = greediest(subject, seed=0, count=1)
        assert needed > subject.peak_bytes_max(frame)

    def test_some_damaged_frames_are_decoded_and_some_rejected(self):
        report = fuzz(message_subject(ProduceRequest), seed=0, count=500)
        assert 50 < report.refused < 450
        assert len(report.slowest) == SLOWEST_KEPT
        assert all(seconds > 0 for seconds, _, _ in report.slowest)
