"""Makes tests/vectors/broker_trees.json anew: what a broker leaves in ZooKeeper, step by step.

    .venv/bin/python -m tests.interop.record_broker_trees

A step is over when the tree has stayed the same for a while.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.apache_kafka import ApacheKafka, ZooKeeper, zookeeper_broker
from tests.support.broker_trees import (
    BROKER_ID,
    STEPS,
    BranchOfTree,
    Broker,
    Shown,
    save_trees,
)

SETTLED_S = 1.5
TIMEOUT_S = 30
POLL_INTERVAL_S = 0.1
#: What a controller does of itself, now and then, would come in between.
SETTINGS = {"auto.leader.rebalance.enable": "false"}


class KafkaBroker:
    """As the steps would have it."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self.address = kafka.bootstrap
        self.start = kafka.start
        self.stop = kafka.stop
        self.kill = kafka.kill


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, ZooKeeper(Path(scratch)) as zookeeper:
        address = f"{zookeeper.address}/recorded"
        with broker_on(Path(scratch), address) as broker:
            save_trees(trees_of(broker, address))


@contextmanager
def broker_on(directory: Path, address: str) -> Iterator[KafkaBroker]:
    """Not started; stopped at the end, if no step has done so."""
    kafka = zookeeper_broker(directory, zookeeper=address, broker_id=BROKER_ID, properties=SETTINGS)
    with ExitStack() as ending:
        ending.push(kafka)
        yield KafkaBroker(kafka)


def trees_of(broker: Broker, address: str) -> dict[str, Shown]:
    """By step."""
    trees = {}
    with BranchOfTree(address) as branch:
        for name, step in STEPS.items():
            step(broker)
            trees[name] = settled(branch)
    return trees


def settled(branch: BranchOfTree) -> Shown:
    tree = branch.shown()
    deadline = time.monotonic() + TIMEOUT_S
    same_since = time.monotonic()
    while time.monotonic() - same_since < SETTLED_S:
        assert time.monotonic() < deadline, tree
        time.sleep(POLL_INTERVAL_S)
        before, tree = tree, branch.shown()
        if before != tree:
            same_since = time.monotonic()
    return tree


if __name__ == "__main__":
    main()
