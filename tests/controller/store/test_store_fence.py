"""Writes that every metadata store does only while somebody is in charge."""

import pytest

from odradek.controller.store.base import (
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    Fenced,
    Get,
    NodeExists,
    NoNode,
    NotEmpty,
    Set,
    Stat,
)


async def in_charge(stores):
    store = await stores.open()
    await store.run([Create("/epoch"), Create("/a"), Create("/a/b")])
    return store


async def test_writes_are_done_while_the_fence_holds(stores):
    store = await in_charge(stores)
    outcomes = await store.run(
        [Set("/a", b"1"), Create("/c"), Delete("/a/b"), Get("/a"), Check("/a", 1)],
        fence=Check("/epoch", 0),
    )
    assert isinstance(outcomes[0], Stat)
    assert isinstance(outcomes[1], Created)
    assert outcomes[1].path == "/c"
    assert outcomes[2] is None
    assert outcomes[3] == (b"1", outcomes[0]._replace(children_version=2, children_count=0))
    assert outcomes[4] is None


@pytest.mark.parametrize("fence", [Check("/epoch", 1), Check("/no", 0)], ids=str)
async def test_a_fence_that_does_not_hold_stops_every_write_and_no_read(stores, fence):
    store = await in_charge(stores)
    outcomes = await store.run(
        [
            Set("/a", b"1"),
            Get("/a"),
            Create("/c"),
            Exists("/c"),
            Delete("/a/b"),
            Children("/a"),
            Set("/no", b""),
        ],
        fence=fence,
    )
    assert [type(outcome) for outcome in outcomes[::2]] == [Fenced] * 4
    assert [outcome.path for outcome in outcomes[::2]] == [fence.path] * 4
    assert outcomes[1].value == b""
    assert outcomes[3] is None
    assert outcomes[5] == ["b"]


async def test_a_write_fails_for_its_own_reason_behind_a_fence_that_holds(stores):
    store = await in_charge(stores)
    outcomes = await store.run(
        [Create("/a"), Set("/no", b""), Delete("/a"), Get("/no"), Set("/a", b"1")],
        fence=Check("/epoch", 0),
    )
    assert [type(outcome) for outcome in outcomes] == [NodeExists, NoNode, NotEmpty, NoNode, Stat]
    assert [outcome.path for outcome in outcomes[:4]] == ["/a", "/no", "/a", "/no"]


async def test_a_fence_is_looked_at_for_each_write(stores):
    store = await in_charge(stores)
    outcomes = await store.run(
        [Set("/a", b"1"), Set("/epoch", b"next"), Set("/a", b"2")], fence=Check("/epoch", 0)
    )
    assert [type(outcome) for outcome in outcomes] == [Stat, Stat, Fenced]
    assert (await store.get("/a")).value == b"1"
