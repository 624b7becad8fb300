"""A tree against a dictionary, and against itself after a restart, whatever is done to it."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.store.base import (
    ANY_VERSION,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    MultiFailed,
    Node,
    Set,
    StoreError,
)
from odradek.controller.store.tree import Gone, Tree, parent_of
from tests.support.store_steps import FIRST, MULTIS, WRITES

EFFECTS = st.lists(st.one_of(WRITES.map(lambda write: [write]), MULTIS), max_size=30).map(
    [FIRST].__add__
)


class Refused(Exception):
    """The model's answer to what it does not do."""


class Model:
    """Paths with value and version, ephemeral ones, and how many children there ever were."""

    def __init__(self):
        self.nodes = {"/": (b"", 0)}
        self.ephemerals = set()
        self.creations = {"/": 0}

    def multi(self, operations):
        attempt = copy.deepcopy(self)
        for operation in operations:
            attempt.write(operation)
        vars(self).update(vars(attempt))

    def write(self, operation):
        if isinstance(operation, Create):
            return self.create(operation)
        path, (_, version) = operation.path, self.nodes.get(operation.path, (None, None))
        children = [each for each in self.nodes if each != "/" and parent_of(each) == path]
        refuse_unless(version is not None and operation.version in (ANY_VERSION, version))
        if isinstance(operation, Set):
            self.nodes[path] = (operation.value, version + 1)
        elif isinstance(operation, Delete):
            refuse_unless(not children)
            del self.nodes[path], self.creations[path]
            self.ephemerals.discard(path)
        return None

    def create(self, operation):
        path, parent = operation.path, parent_of(operation.path)
        refuse_unless(parent in self.nodes and parent not in self.ephemerals)
        if operation.is_sequential:
            path += f"{self.creations[parent]:010d}"
        refuse_unless(path not in self.nodes)
        self.creations[parent] += 1
        self.creations[path] = 0
        self.nodes[path] = (operation.value, 0)
        if operation.is_ephemeral:
            self.ephemerals.add(path)


def refuse_unless(is_legal):
    if not is_legal:
        raise Refused


def seen_in(tree, session_id, paths):
    outcomes = tree.run(session_id, [Get(path) for path in paths], now_ms=0).outcomes
    return {
        path: (node.value, node.stat.version)
        for path, node in zip(paths, outcomes, strict=True)
        if isinstance(node, Node)
    }


@given(multis=EFFECTS)
def test_a_tree_does_what_a_dictionary_does(multis):
    tree, model = Tree(), Model()
    session_id = tree.begin_session()
    for operations in multis:
        try:
            model.multi(operations)
        except Refused:
            with pytest.raises(MultiFailed):
                tree.multi(session_id, operations, now_ms=1)
        else:
            tree.multi(session_id, operations, now_ms=1)
        assert seen_in(tree, session_id, [*model.nodes]) == model.nodes
        kept = {record.path: record.creations for record in tree.records()}
        assert kept == {
            path: count for path, count in model.creations.items() if path not in model.ephemerals
        }


@given(multis=EFFECTS)
def test_a_tree_is_what_its_mutations_make(multis):
    tree, kept = Tree(), {"/": Tree().records()[0]}
    session_id = tree.begin_session()
    for operations in multis:
        zxid = tree.zxid
        try:
            effects = tree.multi(session_id, operations, now_ms=1)
        except MultiFailed:
            assert tree.zxid == zxid
            continue
        assert tree.zxid - zxid in (0, 1)
        kept |= effects.mutations
        records = [record for record in kept.values() if not isinstance(record, Gone)]
        assert sorted(records) == sorted(tree.records())
        again = Tree(zxid=tree.zxid, records=records)
        assert sorted(again.records()) == sorted(records)


@given(multis=EFFECTS)
def test_no_watch_is_called_and_none_is_lost_when_nothing_is_done(multis):
    tree, seen = Tree(), []
    session_id = tree.begin_session()
    for operations in multis:
        tree.run(session_id, [Exists("/a", seen.append)], now_ms=0)
        before = tree.run(session_id, [Exists("/a")], now_ms=0).outcomes
        try:
            effects = tree.multi(session_id, operations, now_ms=1)
        except MultiFailed:
            assert tree.run(session_id, [Exists("/a")], now_ms=0).outcomes == before
            continue
        # What was made and taken away again in one breath has changed too.
        after = tree.run(session_id, [Exists("/a")], now_ms=0).outcomes
        touched = any(
            isinstance(operation, Create | Set | Delete) and operation.path == "/a"
            for operation in operations
        )
        assert len(effects.calls) == touched
        assert touched or comparable_part(before) == comparable_part(after)


def comparable_part(outcomes):
    (stat,) = outcomes
    return stat and (stat.version, stat.modified_zxid)


@given(multis=EFFECTS)
def test_the_end_of_a_session_takes_its_ephemeral_nodes_and_nothing_else(multis):
    tree = Tree()
    lasting, ending = tree.begin_session(), tree.begin_session()
    paths = set()
    for slot, operations in enumerate(multis):
        session_id = ending if slot % 2 else lasting
        for outcome in tree.run(session_id, operations, now_ms=1).outcomes:
            if isinstance(outcome, Created):
                paths.add(outcome.path)
    reads = [Get(path) for path in sorted(paths)]
    before = tree.run(lasting, reads, now_ms=2).outcomes
    tree.end_session(ending, now_ms=2)
    for was, now in zip(before, tree.run(lasting, reads, now_ms=2).outcomes, strict=True):
        if isinstance(was, StoreError) or was.stat.ephemeral_owner == ending:
            assert isinstance(now, StoreError)
        else:
            assert (now.value, now.stat.version) == (was.value, was.stat.version)
