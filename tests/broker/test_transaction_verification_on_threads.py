"""The same transactions, of a broker with several listeners and three threads for each."""

from tests.broker.test_verified_transactions import (
    TestPartitionsAddedByBrokers,
    TestPartitionsAddedByClients,
    coordinating,
    producer,
    test_more_may_wait_for_their_coordinators_than_requests_may_be_in_progress,
)
from tests.support.many_listeners import broker

__all__ = [
    "TestPartitionsAddedByBrokers",
    "TestPartitionsAddedByClients",
    "broker",
    "coordinating",
    "producer",
    "test_more_may_wait_for_their_coordinators_than_requests_may_be_in_progress",
]
