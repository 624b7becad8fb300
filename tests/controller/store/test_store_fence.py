"""Fenced writes, which every metadata store applies only while the fence check holds."""

import pytest

from odradek.controller.store.base import (
    Check,
    Create,
    CreateResult,
    Delete,
    Exists,
    FenceCheckFailed,
    GetChildren,
    GetData,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
    Stat,
)


async def open_with_epoch(stores):
    store = await stores.open()
    await store.run([Create("/epoch"), Create("/a"), Create("/a/b")])
    return store


async def test_writes_are_done_while_the_fence_holds(stores):
    store = await open_with_epoch(stores)
    outcomes = await store.run(
        [SetData("/a", b"1"), Create("/c"), Delete("/a/b"), GetData("/a"), Check("/a", 1)],
        fence=Check("/epoch", 0),
    )
    assert isinstance(outcomes[0], Stat)
    assert isinstance(outcomes[1], CreateResult)
    assert outcomes[1].path == "/c"
    assert outcomes[2] is None
    assert outcomes[3] == (b"1", outcomes[0]._replace(children_version=2, children_count=0))
    assert outcomes[4] is None


@pytest.mark.parametrize("fence", [Check("/epoch", 1), Check("/no", 0)], ids=str)
async def test_failed_fence_stops_every_write_but_no_read(stores, fence):
    store = await open_with_epoch(stores)
    outcomes = await store.run(
        [
            SetData("/a", b"1"),
            GetData("/a"),
            Create("/c"),
            Exists("/c"),
            Delete("/a/b"),
            GetChildren("/a"),
            SetData("/no", b""),
        ],
        fence=fence,
    )
    assert [type(outcome) for outcome in outcomes[::2]] == [FenceCheckFailed] * 4
    assert [outcome.path for outcome in outcomes[::2]] == [fence.path] * 4
    assert outcomes[1].value == b""
    assert outcomes[3] is None
    assert outcomes[5] == ["b"]


async def test_write_behind_a_valid_fence_fails_with_its_error(stores):
    store = await open_with_epoch(stores)
    outcomes = await store.run(
        [Create("/a"), SetData("/no", b""), Delete("/a"), GetData("/no"), SetData("/a", b"1")],
        fence=Check("/epoch", 0),
    )
    assert [type(outcome) for outcome in outcomes] == [NodeExists, NoNode, NotEmpty, NoNode, Stat]
    assert [outcome.path for outcome in outcomes[:4]] == ["/a", "/no", "/a", "/no"]


async def test_fence_is_checked_for_each_write(stores):
    store = await open_with_epoch(stores)
    outcomes = await store.run(
        [SetData("/a", b"1"), SetData("/epoch", b"next"), SetData("/a", b"2")],
        fence=Check("/epoch", 0),
    )
    assert [type(outcome) for outcome in outcomes] == [Stat, Stat, FenceCheckFailed]
    assert (await store.get("/a")).value == b"1"
