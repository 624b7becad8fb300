"""The data tree itself. test_store*.py test what every store takes from it."""

import pytest

from odradek.controller.store.base import (
    Create,
    Delete,
    Exists,
    GetData,
    SessionExpired,
    SetData,
    WatchEvent,
    WatchEventType,
)
from odradek.controller.store.data_tree import DataTree, DeletedNode, NodeRecord
from tests.support.stores import Seen


@pytest.fixture
def tree():
    return DataTree()


@pytest.fixture
def session_id(tree):
    return tree.begin_session()


MALFORMED = ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a/./b"]
UNPRINTABLE = ["/\0", "/\x1f", "/a\n", "/\x85", "/\ud800", "/\ue000", "/\uffff", "/\U0001f600"]


@pytest.mark.parametrize("path", [*MALFORMED, *UNPRINTABLE])
def test_invalid_path_is_rejected_before_any_operation_runs(tree, session_id, path):
    for operation in (Create(path), GetData(path), SetData(path, b""), Delete(path)):
        with pytest.raises(ValueError, match="invalid path"):
            tree.run(session_id, [Create("/a"), operation], now_ms=1)
        assert tree.zxid == session_id
        assert len(tree.records()) == 1


def test_root_cannot_be_deleted(tree, session_id):
    with pytest.raises(ValueError, match="invalid path for Delete"):
        tree.multi(session_id, [Create("/a"), Delete("/")], now_ms=1)


def test_mutations_hold_the_last_of_several_changes(tree, session_id):
    operations = [
        Create("/a"),
        SetData("/a", b"1"),
        Create("/b"),
        Delete("/b"),
        SetData("/a", b"2"),
    ]
    effects = tree.run(session_id, operations, now_ms=7)
    first, last = session_id + 1, session_id + 5
    assert effects.mutations == {
        "/": NodeRecord("/", b"", 0, 0, 0, 0, version=0, creations=2),
        "/a": NodeRecord("/a", b"2", first, last, 7, 7, version=2, creations=0),
        "/b": DeletedNode("/b"),
    }


def test_ephemeral_node_mutates_only_the_creation_count_of_its_parent(tree, session_id):
    operations = [Create("/e", b"", is_ephemeral=True), SetData("/e", b"1"), Delete("/e")]
    effects = tree.run(session_id, operations, now_ms=7)
    assert effects.mutations == {"/": NodeRecord("/", b"", 0, 0, 0, 0, version=0, creations=1)}
    assert tree.zxid == session_id + 3


def test_ephemeral_node_that_replaces_a_node_deletes_its_record(tree, session_id):
    tree.run(session_id, [Create("/a")], now_ms=1)
    effects = tree.multi(session_id, [Delete("/a"), Create("/a", is_ephemeral=True)], now_ms=1)
    assert effects.mutations["/a"] == DeletedNode("/a")


def test_ended_session_is_rejected(tree, session_id):
    tree.end_session(session_id, now_ms=1)
    with pytest.raises(SessionExpired):
        tree.run(session_id, [Create("/a")], now_ms=1)
    with pytest.raises(SessionExpired):
        tree.multi(session_id, [Create("/a")], now_ms=1)
    assert tree.begin_session() > session_id


def test_ending_session_fires_only_the_watches_of_other_sessions(tree, session_id):
    other, own, others = tree.begin_session(), Seen(), Seen()
    tree.run(session_id, [Create("/e", is_ephemeral=True), Exists("/e", own)], now_ms=1)
    tree.run(other, [Exists("/e", others)], now_ms=1)
    calls = tree.end_session(session_id, now_ms=1).watch_calls
    assert calls == [(others, WatchEvent(WatchEventType.DELETED, "/e"))]


@pytest.mark.parametrize("path", ["/a/b", "a", "", "//"])
def test_record_without_a_parent_is_rejected(path):
    with pytest.raises(ValueError, match="no parent for"):
        DataTree(records=[NodeRecord(path, b"", 1, 1, 1, 1, version=0, creations=0)])
