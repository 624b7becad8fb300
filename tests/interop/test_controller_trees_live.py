"""Kafka today writes the trees that were recorded, and they are what its ZooKeeper shows."""

from kazoo.client import KazooClient

from tests.interop.controller_tree_cluster import Cluster
from tests.interop.controller_tree_scenarios import SCENARIOS
from tests.interop.record_controller_trees import record
from tests.support.recorded_trees import Normaliser, Recording, Tree

WITHOUT_CHANCE = "old-protocol"  # nobody competes to be controller, nothing is placed at random
STEPS = 4  # two brokers, a topic, an ISR that shrinks; the whole takes minutes


def test_recording_again_gives_the_same_trees(kafka_39_jars, tmp_path):
    again = record(WITHOUT_CHANCE, tmp_path, steps=STEPS)
    recorded = Recording.load(WITHOUT_CHANCE).steps[:STEPS]
    for step, expected in zip(again.steps, recorded, strict=True):
        assert step.name == expected.name
        assert (step.answer, step.tree) == (expected.answer, expected.tree), step.name


def test_what_zookeeper_logged_is_what_it_shows(zookeeper, tmp_path):
    scenario = SCENARIOS["topics"]
    with Cluster(
        tmp_path, name="shown", zookeeper=zookeeper, settings=scenario.settings
    ) as cluster:
        cluster.done(scenario.steps[0])
        assert shown_tree(zookeeper.address, "/shown") == cluster.tree


def shown_tree(address: str, branch: str) -> Tree:
    client = KazooClient(address)
    client.start()
    try:
        return dict(sorted(_below(client, branch, Normaliser(), "").items()))
    finally:
        client.stop()
        client.close()


def _below(client: KazooClient, branch: str, normaliser: Normaliser, parent: str) -> Tree:
    tree = Tree()
    for name in client.get_children(branch + parent):
        path = f"{parent}/{name}"
        value, stat = client.get(branch + path)
        tree[path] = normaliser.node(
            path, value or b"", is_ephemeral=stat.ephemeralOwner != 0, version=stat.version
        )
        tree |= _below(client, branch, normaliser, path)
    return tree
