"""Kafka 3.9 places replicas as it did when it was recorded, and as we do."""

from tests.interop.record_placements import CASES, cases, placements
from tests.support.placements import saved_placements


def test_kafka_places_as_it_did(kafka_39_jars):
    assert placements(kafka_39_jars, cases(CASES, seed=1)) == saved_placements()


def test_we_place_as_kafka_does(kafka_39_jars):
    for placement in placements(kafka_39_jars, cases(2000, seed=2)):
        assert placement.case.ours() == placement.expected, placement
