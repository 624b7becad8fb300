"""The same requests to this broker and to Apache Kafka: their answers agree, or are meant not to.

Kafka 3.9.1, in ZooKeeper mode, is asked every API and version that it has; 4.1.1 is asked the rest.
What may differ is in meant_differences, with its reason.
"""

from collections.abc import Iterator

import pytest

from tests.interop.differential_compare import Comparison
from tests.interop.differential_pairs import (
    Pair,
    every_version,
    pair_39,
    pair_41,
    served_at,
)
from tests.interop.differential_scenarios import OF_LATER_VERSIONS, SCENARIOS
from tests.interop.meant_differences import EVERYWHERE, MEANT, UNKNOWN_TO_KAFKA

SHOWN = 40


@pytest.fixture(scope="module")
def beside_39(zookeeper, tmp_path_factory) -> Iterator[Pair]:
    with pair_39(tmp_path_factory.mktemp("beside-3.9"), zookeeper) as pair:
        yield pair


@pytest.fixture(scope="module")
def beside_41(beside_39, kafka_41_jars, tmp_path_factory) -> Iterator[Pair]:
    with pair_41(tmp_path_factory.mktemp("beside-4.1"), served_at(beside_39.theirs)) as pair:
        yield pair


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_agree_with_those_of_the_last_release_with_zookeeper(beside_39, name):
    check(beside_39, name)


@pytest.mark.parametrize("name", OF_LATER_VERSIONS)
def test_answers_in_later_versions_agree_with_those_of_a_later_release(beside_41, name):
    check(beside_41, name)


def test_every_api_and_version_that_is_served_is_compared(beside_39, beside_41):
    served = every_version(served_at(beside_39.ours))
    compared = {
        (step.key, step.version)
        for pair, names in ((beside_39, SCENARIOS), (beside_41, OF_LATER_VERSIONS))
        for name in names
        for step in SCENARIOS[name](pair.scope)
        if step.raw is None
    }
    assert served - compared == UNKNOWN_TO_KAFKA


def check(pair: Pair, name: str) -> None:
    pair.hang_up()
    meant = MEANT.get(name, [])
    comparison = Comparison(pair.ours, pair.theirs, [*EVERYWHERE, *meant])
    comparison.send(SCENARIOS[name](pair.scope))
    found = comparison.found
    assert not found, "\n".join([f"{len(found)} differences", *map(str, found[:SHOWN])])
    unused = [each for each in comparison.unused if each in meant]
    assert not unused, f"no longer so: {unused}"
