"""The same transactions, on a broker with several listeners and three threads for each."""

from tests.broker.test_transaction_verification import (
    TestPartitionsAddedByBrokers,
    TestPartitionsAddedByClients,
    coordinating,
    producer,
    test_more_producers_wait_for_coordinators_than_requests_may_be_in_progress,
)
from tests.support.many_listeners import broker

__all__ = [
    "TestPartitionsAddedByBrokers",
    "TestPartitionsAddedByClients",
    "broker",
    "coordinating",
    "producer",
    "test_more_producers_wait_for_coordinators_than_requests_may_be_in_progress",
]
