"""Recordings of Kafka's znode trees are complete and comparable with trees of other clusters."""

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


def test_all_recordings_exist():
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
def test_every_recorded_znode_has_a_persistent_parent(step: Step):
    parents = {path.rpartition("/")[0] for path in step.tree} - {""}
    assert parents <= step.tree.keys()
    assert not any(step.tree[path].is_ephemeral for path in parents)


@pytest.mark.parametrize("recording", RECORDINGS.values(), ids=RECORDINGS)
def test_recorded_trees_are_normalised(recording: Recording):
    normaliser = Normaliser()
    for step in recording.steps:
        assert normalise(normaliser, step.tree) == step.tree, step.name


@pytest.mark.parametrize("step", EVERY_STEP)
def test_recorded_leaders_are_in_isr_and_isr_is_assigned(step: Step):
    for path, node in step.tree.items():
        match path.split("/")[1:]:
            case ["brokers", "topics", topic, "partitions", partition, "state"]:
                state, replicas = node.content, step.assignment(topic)[int(partition)]
                assert state["leader"] in [*state["isr"], -1]
                assert set(state["isr"]) <= set(replicas)


def test_step_names_the_controller():
    controllers = [step.controller for step in RECORDINGS["old-protocol"].steps]
    assert controllers[0] == 1
    assert None in controllers


def test_step_returns_the_random_assignment_of_a_topic():
    step_with_placement = next(
        step for step in RECORDINGS["topics"].steps if "/brokers/topics/placed" in step.tree
    )
    assert [len(replicas) for replicas in step_with_placement.assignment("placed").values()] == [
        2
    ] * 6


def test_normaliser_uses_one_placeholder_per_topic_id():
    normaliser = Normaliser()
    ids = ["Zc0jJq0vTJmEw0nUZbqQfQ", "1n8kRm8eQRmBqkKYs2h2AA", "Zc0jJq0vTJmEw0nUZbqQfQ"]
    placeholders = [topic_id_in(normaliser, "t", topic_id) for topic_id in ids]
    assert placeholders == ["<id 1 of t>", "<id 2 of t>", "<id 1 of t>"]
    assert normaliser.placeholders() == {ids[0]: "<id 1 of t>", ids[1]: "<id 2 of t>"}


def test_normaliser_replaces_ports_and_timestamps_but_not_racks():
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


def test_normaliser_keeps_port_minus_one_without_plaintext_listener():
    value = b'{"port":-1,"endpoints":["SSL://h:9092"],"timestamp":"1"}'
    node = Normaliser().node("/brokers/ids/1", value, is_ephemeral=True, version=1)
    assert node.content["port"] == -1


def test_normaliser_keeps_values_that_are_not_json():
    assert Normaliser().value("/consumers/g/offsets/t/0", b"not json") == b"not json"
    assert Normaliser().value("/brokers/topics", b"") == b""


def test_znodes_compare_equal_regardless_of_key_order():
    one, other = (
        Normaliser().node("/config/topics/t", value, is_ephemeral=False, version=0)
        for value in (b'{"version":1,"config":{}}', b'{"config":{}, "version":1}')
    )
    assert one == other


@pytest.mark.parametrize("other", [{"is_ephemeral": True}, {"version": 1}])
def test_znodes_of_different_kind_or_version_differ(other):
    plain = {"is_ephemeral": False, "version": 0}
    one = Normaliser().node("/a", b"1", **plain)
    assert one != Normaliser().node("/a", b"1", **{**plain, **other})


def test_applying_writes_does_not_change_the_old_tree():
    before = written({}, [["create", "/a", None, False, 1], ["create", "/b", "1", True, 1]])
    after = written(before, [["set", "/a", "2", 1, 1], ["delete", "/b", 1]])
    assert {path: (node.value, node.version) for path, node in after.items()} == {"/a": (b"2", 1)}
    assert set(before) == {"/a", "/b"}


def normalise(normaliser: Normaliser, tree: Tree) -> Tree:
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
