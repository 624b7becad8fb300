"""Scenarios that a broker must survive, each by its id, played to a broker process over TCP.

S are about storage, P about producers, T about transactions, G about groups and Y about Python; Y2
and Y3 are in tests/hostile, S1 in tests/crash and S11 in tests/interop.  What a log decides by
itself is tried harder, under the same ids, in tests/storage.
"""

import pytest

from tests.support.broker_process import broker
from tests.support.client_drivers import DRIVERS
from tests.support.new_topics import new_topic
from tests.support.partition_client import PartitionClient

__all__ = ["broker", "new_topic"]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request):
    return request.param


@pytest.fixture
def partition(broker, new_topic):
    """The only one of a topic of its own."""
    with PartitionClient(broker.address, new_topic()) as client:
        yield client
