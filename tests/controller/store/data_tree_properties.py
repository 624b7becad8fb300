"""The data tree compared with a dictionary, and with itself after a restart."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.store.base import (
    ANY_VERSION,
    Create,
    CreateResult,
    Delete,
    Exists,
    GetData,
    MultiFailed,
    SetData,
    StoreError,
    ZNode,
)
from odradek.controller.store.data_tree import DataTree, DeletedNode, parent_of
from tests.support.store_steps import FIRST, MULTIS, WRITES

EFFECTS = st.lists(st.one_of(WRITES.map(lambda write: [write]), MULTIS), max_size=30).map(
    [FIRST].__add__
)


class Rejected(Exception):
    """The model rejects the operation."""


class Model:
    """Paths with value and version, the ephemeral paths, and the count of children ever created."""

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
        children = [
            node_path
            for node_path in self.nodes
            if node_path != "/" and parent_of(node_path) == path
        ]
        reject_unless(version is not None and operation.version in (ANY_VERSION, version))
        if isinstance(operation, SetData):
            self.nodes[path] = (operation.value, version + 1)
        elif isinstance(operation, Delete):
            reject_unless(not children)
            del self.nodes[path], self.creations[path]
            self.ephemerals.discard(path)
        return None

    def create(self, operation):
        path, parent = operation.path, parent_of(operation.path)
        reject_unless(parent in self.nodes and parent not in self.ephemerals)
        if operation.is_sequential:
            path += f"{self.creations[parent]:010d}"
        reject_unless(path not in self.nodes)
        self.creations[parent] += 1
        self.creations[path] = 0
        self.nodes[path] = (operation.value, 0)
        if operation.is_ephemeral:
            self.ephemerals.add(path)


def reject_unless(is_legal):
    if not is_legal:
        raise Rejected


def read_nodes(tree, session_id, paths):
    outcomes = tree.run(session_id, [GetData(path) for path in paths], now_ms=0).outcomes
    return {
        path: (node.value, node.stat.version)
        for path, node in zip(paths, outcomes, strict=True)
        if isinstance(node, ZNode)
    }


@given(multis=EFFECTS)
def test_tree_matches_a_dictionary(multis):
    tree, model = DataTree(), Model()
    session_id = tree.begin_session()
    for operations in multis:
        try:
            model.multi(operations)
        except Rejected:
            with pytest.raises(MultiFailed):
                tree.multi(session_id, operations, now_ms=1)
        else:
            tree.multi(session_id, operations, now_ms=1)
        assert read_nodes(tree, session_id, [*model.nodes]) == model.nodes
        creations = {record.path: record.creations for record in tree.records()}
        assert creations == {
            path: count for path, count in model.creations.items() if path not in model.ephemerals
        }


@given(multis=EFFECTS)
def test_tree_can_be_rebuilt_from_its_mutations(multis):
    tree, stored = DataTree(), {"/": DataTree().records()[0]}
    session_id = tree.begin_session()
    for operations in multis:
        zxid = tree.zxid
        try:
            effects = tree.multi(session_id, operations, now_ms=1)
        except MultiFailed:
            assert tree.zxid == zxid
            continue
        assert tree.zxid - zxid in (0, 1)
        stored |= effects.mutations
        records = [record for record in stored.values() if not isinstance(record, DeletedNode)]
        assert sorted(records) == sorted(tree.records())
        rebuilt = DataTree(zxid=tree.zxid, records=records)
        assert sorted(rebuilt.records()) == sorted(records)


@given(multis=EFFECTS)
def test_watch_fires_only_for_a_change_and_is_never_lost(multis):
    tree, seen = DataTree(), []
    session_id = tree.begin_session()
    for operations in multis:
        tree.run(session_id, [Exists("/a", seen.append)], now_ms=0)
        before = tree.run(session_id, [Exists("/a")], now_ms=0).outcomes
        try:
            effects = tree.multi(session_id, operations, now_ms=1)
        except MultiFailed:
            assert tree.run(session_id, [Exists("/a")], now_ms=0).outcomes == before
            continue
        # A node that one multi creates and deletes has changed too.
        after = tree.run(session_id, [Exists("/a")], now_ms=0).outcomes
        touched = any(
            isinstance(operation, Create | SetData | Delete) and operation.path == "/a"
            for operation in operations
        )
        assert len(effects.watch_calls) == touched
        assert touched or comparable_part(before) == comparable_part(after)


def comparable_part(outcomes):
    (stat,) = outcomes
    return stat and (stat.version, stat.modified_zxid)


@given(multis=EFFECTS)
def test_end_of_a_session_deletes_only_its_ephemeral_nodes(multis):
    tree = DataTree()
    lasting, ending = tree.begin_session(), tree.begin_session()
    paths = set()
    for index, operations in enumerate(multis):
        session_id = ending if index % 2 else lasting
        for outcome in tree.run(session_id, operations, now_ms=1).outcomes:
            if isinstance(outcome, CreateResult):
                paths.add(outcome.path)
    reads = [GetData(path) for path in sorted(paths)]
    before = tree.run(lasting, reads, now_ms=2).outcomes
    tree.end_session(ending, now_ms=2)
    for old, new in zip(before, tree.run(lasting, reads, now_ms=2).outcomes, strict=True):
        if isinstance(old, StoreError) or old.stat.ephemeral_owner == ending:
            assert isinstance(new, StoreError)
        else:
            assert (new.value, new.stat.version) == (old.value, old.stat.version)
