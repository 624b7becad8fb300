"""Recordings of Kafka's trees are whole, and trees of other clusters can be compared to them."""

import json

import pytest

from tests.support.recorded_trees import (
    Normaliser,
    Recording,
    Step,
    Tree,
    names_of_recorded_trees,
    written,
)

RECORDINGS = {name: Recording.load(name) for name in names_of_recorded_trees()}
EVERY_STEP = [
    pytest.param(step, id=f"{name}-{number}")
    for name, recording in RECORDINGS.items()
    for number, step in enumerate(recording.steps)
]


def test_all_that_was_recorded_is_there():
    assert set(RECORDINGS) == {
        "topics",
        "failures",
        "reassignment",
        "old-protocol",
        "log-dirs",
        "left-stopped",
        "left-killed",
    }


@pytest.mark.parametrize("step", EVERY_STEP)
def test_every_node_of_a_recorded_tree_has_a_persistent_parent(step: Step):
    parents = {path.rpartition("/")[0] for path in step.tree} - {""}
    assert parents <= step.tree.keys()
    assert not any(step.tree[path].is_ephemeral for path in parents)


@pytest.mark.parametrize("recording", RECORDINGS.values(), ids=RECORDINGS)
def test_recorded_trees_hold_nothing_that_differs_from_cluster_to_cluster(recording: Recording):
    normaliser = Normaliser()
    for step in recording.steps:
        assert normalised(normaliser, step.tree) == step.tree, step.name


@pytest.mark.parametrize("step", EVERY_STEP)
def test_recorded_leaders_are_in_sync_and_assigned(step: Step):
    for path, node in step.tree.items():
        match path.split("/")[1:]:
            case ["brokers", "topics", topic, "partitions", partition, "state"]:
                state, replicas = node.content, step.assignment(topic)[int(partition)]
                assert state["leader"] in [*state["isr"], -1]
                assert set(state["isr"]) <= set(replicas)


def test_steps_tell_who_is_in_charge():
    controllers = [step.controller for step in RECORDINGS["old-protocol"].steps]
    assert controllers[0] == 1
    assert None in controllers


def test_steps_tell_what_was_left_to_chance():
    placed = next(
        step for step in RECORDINGS["topics"].steps if "/brokers/topics/placed" in step.tree
    )
    assert [len(replicas) for replicas in placed.assignment("placed").values()] == [2] * 6


def test_one_normaliser_gives_an_id_one_placeholder_in_all_trees():
    normaliser = Normaliser()
    ids = ["Zc0jJq0vTJmEw0nUZbqQfQ", "1n8kRm8eQRmBqkKYs2h2AA", "Zc0jJq0vTJmEw0nUZbqQfQ"]
    shown = [topic_id_in(normaliser, "t", topic_id) for topic_id in ids]
    assert shown == ["<id 1 of t>", "<id 2 of t>", "<id 1 of t>"]
    assert normaliser.placeholders() == {ids[0]: "<id 1 of t>", ids[1]: "<id 2 of t>"}


def test_ports_and_times_give_way_and_racks_stay():
    registration = {
        "version": 5,
        "host": "h",
        "port": 9093,
        "endpoints": ["A://h:9092", "B://h:9093"],
        "rack": "east",
        "timestamp": "1700000000000",
    }
    node = Normaliser().node(
        "/brokers/ids/1", json.dumps(registration).encode(), is_ephemeral=True, version=1
    )
    assert node.content == {
        "version": 5,
        "host": "h",
        "port": "<port 2>",
        "endpoints": ["A://h:<port 1>", "B://h:<port 2>"],
        "rack": "east",
        "timestamp": "<time>",
    }


def test_a_broker_without_plain_listener_keeps_its_lack_of_a_port():
    value = b'{"port":-1,"endpoints":["SSL://h:9092"],"timestamp":"1"}'
    node = Normaliser().node("/brokers/ids/1", value, is_ephemeral=True, version=1)
    assert node.content["port"] == -1


def test_values_that_are_no_json_stay_as_they_are():
    assert Normaliser().value("/consumers/g/offsets/t/0", b"not json") == b"not json"
    assert Normaliser().value("/brokers/topics", b"") == b""


def test_the_order_of_keys_makes_no_difference():
    one, other = (
        Normaliser().node("/config/topics/t", value, is_ephemeral=False, version=0)
        for value in (b'{"version":1,"config":{}}', b'{"config":{}, "version":1}')
    )
    assert one == other


@pytest.mark.parametrize("other", [{"is_ephemeral": True}, {"version": 1}])
def test_kind_and_version_of_a_node_do(other):
    plain = {"is_ephemeral": False, "version": 0}
    one = Normaliser().node("/a", b"1", **plain)
    assert one != Normaliser().node("/a", b"1", **{**plain, **other})


def test_writes_make_a_new_tree_and_leave_the_old():
    before = written({}, [["create", "/a", None, False, 1], ["create", "/b", "1", True, 1]])
    after = written(before, [["set", "/a", "2", 1, 1], ["delete", "/b", 1]])
    assert {path: (node.value, node.version) for path, node in after.items()} == {"/a": (b"2", 1)}
    assert set(before) == {"/a", "/b"}


def normalised(normaliser: Normaliser, tree: Tree) -> Tree:
    return {
        path: normaliser.node(
            path, node.value, is_ephemeral=node.is_ephemeral, version=node.version
        )
        for path, node in tree.items()
    }


def topic_id_in(normaliser: Normaliser, topic: str, topic_id: str) -> str:
    value = json.dumps({"version": 3, "topic_id": topic_id, "partitions": {}}).encode()
    node = normaliser.node(f"/brokers/topics/{topic}", value, is_ephemeral=False, version=0)
    return node.content["topic_id"]
