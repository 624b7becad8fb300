"""The tree itself: what every store takes from it is in test_store*.py."""

import pytest

from odradek.controller.store.base import (
    Change,
    Create,
    Delete,
    Exists,
    Get,
    SessionExpired,
    Set,
    WatchEvent,
)
from odradek.controller.store.tree import Gone, Record, Tree
from tests.support.stores import Seen


@pytest.fixture
def tree():
    return Tree()


@pytest.fixture
def session_id(tree):
    return tree.begin_session()


MALFORMED = ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a/./b"]
UNPRINTABLE = ["/\0", "/\x1f", "/a\n", "/\x85", "/\ud800", "/\ue000", "/\uffff", "/\U0001f600"]


@pytest.mark.parametrize("path", [*MALFORMED, *UNPRINTABLE])
def test_what_zookeeper_does_not_take_for_a_path_is_refused_before_anything_is_done(
    tree, session_id, path
):
    for operation in (Create(path), Get(path), Set(path, b""), Delete(path)):
        with pytest.raises(ValueError, match="not a path"):
            tree.run(session_id, [Create("/a"), operation], now_ms=1)
        assert tree.zxid == session_id
        assert len(tree.records()) == 1


def test_the_root_cannot_be_deleted(tree, session_id):
    with pytest.raises(ValueError, match="not a path for Delete"):
        tree.multi(session_id, [Create("/a"), Delete("/")], now_ms=1)


def test_what_is_to_be_kept_is_the_last_of_several_changes(tree, session_id):
    operations = [Create("/a"), Set("/a", b"1"), Create("/b"), Delete("/b"), Set("/a", b"2")]
    effects = tree.run(session_id, operations, now_ms=7)
    first, last = session_id + 1, session_id + 5
    assert effects.mutations == {
        "/": Record("/", b"", 0, 0, 0, 0, version=0, creations=2),
        "/a": Record("/a", b"2", first, last, 7, 7, version=2, creations=0),
        "/b": Gone("/b"),
    }


def test_of_an_ephemeral_node_only_its_parents_count_is_kept(tree, session_id):
    operations = [Create("/e", b"", is_ephemeral=True), Set("/e", b"1"), Delete("/e")]
    effects = tree.run(session_id, operations, now_ms=7)
    assert effects.mutations == {"/": Record("/", b"", 0, 0, 0, 0, version=0, creations=1)}
    assert tree.zxid == session_id + 3


def test_an_ephemeral_node_in_place_of_another_leaves_nothing_to_keep(tree, session_id):
    tree.run(session_id, [Create("/a")], now_ms=1)
    effects = tree.multi(session_id, [Delete("/a"), Create("/a", is_ephemeral=True)], now_ms=1)
    assert effects.mutations["/a"] == Gone("/a")


def test_a_session_that_is_over_does_nothing(tree, session_id):
    tree.end_session(session_id, now_ms=1)
    with pytest.raises(SessionExpired):
        tree.run(session_id, [Create("/a")], now_ms=1)
    with pytest.raises(SessionExpired):
        tree.multi(session_id, [Create("/a")], now_ms=1)
    assert tree.begin_session() > session_id


def test_a_session_that_ends_calls_the_watches_of_others_and_none_of_its_own(tree, session_id):
    other, own, others = tree.begin_session(), Seen(), Seen()
    tree.run(session_id, [Create("/e", is_ephemeral=True), Exists("/e", own)], now_ms=1)
    tree.run(other, [Exists("/e", others)], now_ms=1)
    calls = tree.end_session(session_id, now_ms=1).calls
    assert calls == [(others, WatchEvent(Change.DELETED, "/e"))]


@pytest.mark.parametrize("path", ["/a/b", "a", "", "//"])
def test_records_that_make_no_tree_are_refused(path):
    with pytest.raises(ValueError, match="no place for"):
        Tree(records=[Record(path, b"", 1, 1, 1, 1, version=0, creations=0)])
