"""Which broker of a cluster coordinates a group or a transaction.

Owner: the thread of the test.
"""

from __future__ import annotations

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.cluster import Cluster
from tests.support.group_members import wait_until
from tests.support.wire_client import call

#: The types of coordinators, and what they keep their state in.
GROUP, TRANSACTION = 0, 1
TOPICS = GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def coordinator(
    cluster: Cluster, kind: int, key: str, *, by: BrokerProcess | None = None
) -> BrokerProcess:
    """As ``by`` knows it, the first by default; it may be loading yet."""
    asked = {"key_type": kind, "coordinator_keys": [key]}
    address, found = (by or cluster.brokers[0]).address, [-1]

    def is_found() -> bool:
        (answer,) = call(address, ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
        found[0] = answer.node_id
        return not answer.error_code and cluster.brokers[answer.node_id].is_alive()

    wait_until(is_found)
    return cluster.brokers[found[0]]
