"""The znodes of a broker are those of Apache Kafka after the same operations."""

from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import on_zookeeper
from tests.support.broker_trees import BROKER_ID, check_trees


def test_zookeeper_tree_matches_kafka_after_every_step(zookeeper, tmp_path):
    settings = (*on_zookeeper(zookeeper), f"broker.id={BROKER_ID}")
    with BrokerProcess(tmp_path / "logs", *settings) as broker:
        check_trees(broker, broker.setting("zookeeper.connect"))
    assert "Traceback" not in broker.log_text
