"""Kafka's own classes build the very batches that tests/support/java_batches.py keeps of them."""

from pathlib import Path

import pytest

from odradek.protocol.records.batch import RecordBatch
from tests.support.java_batches import JAVA_BATCHES, records_from
from tests.support.java_program import run_java

PROGRAM = Path(__file__).parent / "java" / "RecordBatches.java"


@pytest.fixture(scope="module", params=["kafka_39_jars", "kafka_41_jars"])
def built(request):
    lines = run_java(request.getfixturevalue(request.param), PROGRAM)
    return {name: bytes.fromhex(text) for name, text in (line.split("\t") for line in lines)}


def test_all_of_them_are_built(built):
    assert list(built) == list(JAVA_BATCHES)


@pytest.mark.parametrize("name", [name for name in JAVA_BATCHES if name != "gzip"])
def test_kafka_builds_the_same_bytes(built, name):
    assert built[name] == JAVA_BATCHES[name]


def test_kafka_builds_the_same_gzip_but_for_what_the_jdk_makes_of_it(built):
    assert list(RecordBatch(built["gzip"])) == records_from(0)
