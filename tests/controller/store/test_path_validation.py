"""What is no path is refused by every store, before anything is done."""

import pytest

from odradek.controller.store.base import Children, Create, Delete, Exists, Get, Set
from odradek.controller.store.legal_paths import is_legal

MALFORMED = ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a/./b"]
UNPRINTABLE = ["/\0", "/\x1f", "/a\n", "/\x85", "/\ue000", "/\uffff", "/\U0001f600"]
NOT_ENCODABLE = ["/\ud800", "/a\udfff/b"]
ILLEGAL = [*MALFORMED, *UNPRINTABLE, *NOT_ENCODABLE]


@pytest.mark.parametrize(
    "path", ["/", "/a", "/a/b", "/.a", "/a..", "/...", "/<default>", "/\u00e9"]
)
def test_these_are_paths(path):
    assert is_legal(path)


@pytest.mark.parametrize("path", ILLEGAL)
def test_these_are_none(path):
    assert not is_legal(path)


async def test_nothing_of_a_run_is_done_if_one_path_is_none(stores):
    store = await stores.open()
    for path in ILLEGAL:
        reads = (Get(path), Exists(path), Children(path))
        for operation in (*reads, Create(path), Set(path, b""), Delete(path)):
            with pytest.raises(ValueError, match="not a path"):
                await store.run([operation, Create("/a")])
    assert await store.exists("/a") is None


async def test_nothing_of_a_multi_is_done_if_one_path_is_none(stores):
    store = await stores.open()
    for path in ILLEGAL:
        with pytest.raises(ValueError, match="not a path"):
            await store.multi([Create("/a"), Create(path)])
    assert await store.exists("/a") is None


async def test_a_sequential_node_may_be_named_by_its_number_alone(stores):
    store = await stores.open()
    await store.create("/a")
    assert (await store.create("/a/", is_sequential=True)).path == "/a/0000000000"


async def test_the_root_can_be_read_and_not_deleted(stores):
    store = await stores.open()
    assert await store.exists("/") is not None
    with pytest.raises(ValueError, match="not a path for Delete"):
        await store.delete("/")
