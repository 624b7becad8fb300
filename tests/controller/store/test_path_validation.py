"""Every store rejects an invalid path before it runs any operation."""

import pytest

from odradek.controller.store.base import Create, Delete, Exists, GetChildren, GetData, SetData
from odradek.controller.store.path_validation import is_valid_path

MALFORMED = ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a/./b"]
UNPRINTABLE = ["/\0", "/\x1f", "/a\n", "/\x85", "/\ue000", "/\uffff", "/\U0001f600"]
NOT_ENCODABLE = ["/\ud800", "/a\udfff/b"]
INVALID = [*MALFORMED, *UNPRINTABLE, *NOT_ENCODABLE]


@pytest.mark.parametrize(
    "path", ["/", "/a", "/a/b", "/.a", "/a..", "/...", "/<default>", "/\u00e9"]
)
def test_valid_paths_are_accepted(path):
    assert is_valid_path(path)


@pytest.mark.parametrize("path", INVALID)
def test_invalid_paths_are_rejected(path):
    assert not is_valid_path(path)


async def test_run_with_an_invalid_path_does_nothing(stores):
    store = await stores.open()
    for path in INVALID:
        reads = (GetData(path), Exists(path), GetChildren(path))
        for operation in (*reads, Create(path), SetData(path, b""), Delete(path)):
            with pytest.raises(ValueError, match="invalid path"):
                await store.run([operation, Create("/a")])
    assert await store.exists("/a") is None


async def test_multi_with_an_invalid_path_does_nothing(stores):
    store = await stores.open()
    for path in INVALID:
        with pytest.raises(ValueError, match="invalid path"):
            await store.multi([Create("/a"), Create(path)])
    assert await store.exists("/a") is None


async def test_sequential_node_may_have_an_empty_name_prefix(stores):
    store = await stores.open()
    await store.create("/a")
    assert (await store.create("/a/", is_sequential=True)).path == "/a/0000000000"


async def test_root_can_be_read_but_not_deleted(stores):
    store = await stores.open()
    assert await store.exists("/") is not None
    with pytest.raises(ValueError, match="invalid path for Delete"):
        await store.delete("/")
