"""Kafka today leaves the trees that were recorded of a broker, to which ours are compared."""

from tests.interop.record_broker_trees import broker_on
from tests.support.broker_trees import check_trees


def test_a_broker_leaves_the_trees_that_were_recorded(zookeeper, tmp_path):
    address = f"{zookeeper.address}/broker-trees"
    with broker_on(tmp_path, address) as broker:
        check_trees(broker, address)
