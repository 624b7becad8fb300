"""The behaviour that all metadata stores share."""

import asyncio

import pytest

from odradek.controller.store.base import (
    BadVersion,
    Check,
    Create,
    CreateResult,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    SetData,
    Stat,
    StoreError,
    ZNode,
)


async def open_with(stores, *paths):
    store = await stores.open()
    for path in paths:
        await store.create(path)
    return store


async def error_of(operation):
    with pytest.raises(StoreError) as caught:
        await operation
    return type(caught.value), caught.value.path


async def test_new_node_has_its_value_and_the_first_version(stores):
    store = await stores.open()
    created = await store.create("/a", b"one")
    node = await store.get("/a")
    assert node == ZNode(b"one", created.stat)
    assert created.path == "/a"
    assert created.stat._replace(created_ms=0, modified_ms=0) == Stat(
        created_zxid=created.stat.created_zxid,
        modified_zxid=created.stat.created_zxid,
        created_ms=0,
        modified_ms=0,
        version=0,
        children_version=0,
        ephemeral_owner=0,
        children_count=0,
    )
    assert created.stat.created_ms == created.stat.modified_ms > 0


async def test_write_increments_the_version_and_keeps_the_creation_zxid(stores):
    store = await open_with(stores, "/a")
    before = await store.exists("/a")
    stat = await store.set("/a", b"two")
    assert await store.get("/a") == ZNode(b"two", stat)
    assert stat.version == before.version + 1
    assert stat.created_zxid == before.created_zxid
    assert stat.modified_zxid > before.modified_zxid


async def test_write_with_the_current_version_succeeds(stores):
    store = await open_with(stores, "/a")
    assert (await store.set("/a", b"1", version=0)).version == 1
    assert (await store.set("/a", b"2", version=1)).version == 2
    await store.delete("/a", version=2)
    assert await store.exists("/a") is None


async def test_write_with_another_version_is_rejected(stores):
    store = await open_with(stores, "/a")
    await store.set("/a", b"1")
    assert await error_of(store.set("/a", b"2", version=0)) == (BadVersion, "/a")
    assert await error_of(store.delete("/a", version=2)) == (BadVersion, "/a")
    assert (await store.get("/a")).value == b"1"


async def test_error_names_the_missing_node(stores):
    store = await stores.open()
    assert await store.exists("/a") is None
    assert await error_of(store.get("/a")) == (NoNode, "/a")
    assert await error_of(store.get_children("/a")) == (NoNode, "/a")
    assert await error_of(store.set("/a", b"")) == (NoNode, "/a")
    assert await error_of(store.delete("/a")) == (NoNode, "/a")
    assert await error_of(store.create("/a/b")) == (NoNode, "/a/b")


async def test_existing_node_cannot_be_created(stores):
    store = await open_with(stores, "/a")
    assert await error_of(store.create("/a", b"again")) == (NodeExists, "/a")
    assert (await store.get("/a")).value == b""


async def test_node_with_children_cannot_be_deleted(stores):
    store = await open_with(stores, "/a", "/a/b")
    assert await error_of(store.delete("/a")) == (NotEmpty, "/a")
    await store.delete("/a/b")
    await store.delete("/a")
    assert await store.exists("/a") is None


async def test_root_always_exists(stores):
    store = await stores.open()
    assert await store.get_children("/") == []
    await store.create("/a")
    assert await store.get_children("/") == ["a"]


async def test_children_are_listed_and_counted(stores):
    store = await open_with(stores, "/a", "/ab", "/a/b", "/a/c", "/a/c/d")
    assert sorted(await store.get_children("/a")) == ["b", "c"]
    assert sorted(await store.get_children("/")) == ["a", "ab"]
    assert (await store.exists("/a")).children_count == 2


async def test_children_version_counts_created_and_deleted_children(stores):
    store = await open_with(stores, "/a", "/a/b", "/a/c")
    await store.delete("/a/b")
    await store.set("/a/c", b"not counted")
    await store.create("/a/c/d")
    stat = await store.exists("/a")
    assert (stat.children_version, stat.version) == (3, 0)


async def test_every_change_has_a_higher_zxid(stores):
    store = await stores.open()
    first = await store.create("/a")
    second = await store.set("/a", b"")
    third = await store.create("/b")
    assert first.stat.created_zxid < second.modified_zxid < third.stat.created_zxid


@pytest.mark.parametrize("size", [0, 1, 10_000, 900_000])
async def test_values_are_any_bytes(stores, size):
    store = await stores.open()
    value = bytes(index * index % 256 for index in range(size))
    await store.create("/a", value)
    assert (await store.get("/a")).value == value
    await store.set("/a", value[::-1])
    assert (await store.get("/a")).value == value[::-1]


@pytest.mark.parametrize("name", ["größe", "темы", "主題", "a b", "a'b\"c%d_", "...", "-"])
async def test_names_are_any_text(stores, name):
    store = await open_with(stores, f"/{name}", f"/{name}/{name}")
    assert await store.get_children(f"/{name}") == [name]
    assert await store.get_children("/") == [name]


async def test_thousand_nodes_are_created_and_read_in_one_run(stores):
    store = await open_with(stores, "/a")
    paths = [f"/a/{number}" for number in range(1000)]
    outcomes = await store.run([Create(path, path.encode()) for path in paths])
    assert [created.path for created in outcomes] == paths
    outcomes = await store.run([GetData(path) for path in paths])
    assert [node.value.decode() for node in outcomes] == paths
    assert sorted(await store.get_children("/a")) == sorted(path[3:] for path in paths)


async def test_operations_run_in_order_and_each_has_a_result(stores):
    store = await stores.open()
    outcomes = await store.run(
        [
            Create("/a", b"0"),
            GetData("/a"),
            Create("/a"),
            SetData("/a", b"1", version=0),
            SetData("/a", b"2", version=0),
            GetData("/a"),
            GetChildren("/"),
            Check("/a", 1),
            Check("/a", 0),
            Delete("/a"),
            Exists("/a"),
            GetData("/a"),
        ]
    )
    created, first, exists, written, stale, second, names, checked, unchecked, *gone = outcomes
    assert isinstance(created, CreateResult)
    assert first == ZNode(b"0", created.stat)
    assert (type(exists), exists.path) == (NodeExists, "/a")
    assert second == ZNode(b"1", written)
    assert (type(stale), stale.path) == (BadVersion, "/a")
    assert names == ["a"]
    assert checked is None
    assert (type(unchecked), unchecked.path) == (BadVersion, "/a")
    assert gone[:2] == [None, None]
    assert isinstance(gone[2], NoNode)


async def test_concurrent_runs_are_done_in_order(stores):
    store = await open_with(stores, "/a")
    runs = [store.run([SetData("/a", b"%d" % number), GetData("/a")]) for number in range(50)]
    responses = await asyncio.gather(*runs)
    assert [node.value for _, node in responses] == [b"%d" % number for number in range(50)]
    assert [stat.version for stat, _ in responses] == list(range(1, 51))


async def test_empty_run_returns_nothing(stores):
    store = await stores.open()
    assert await store.run([]) == []


# Sequences


async def test_sequential_nodes_are_numbered_with_ten_digits(stores):
    store = await open_with(stores, "/a")
    created = [await store.create("/a/n_", b"", is_sequential=True) for _ in range(3)]
    assert [each.path for each in created] == [
        "/a/n_0000000000",
        "/a/n_0000000001",
        "/a/n_0000000002",
    ]


async def test_sequence_number_counts_deleted_children_too(stores):
    store = await open_with(stores, "/a", "/a/plain")
    await store.create("/a/x_", is_sequential=True)
    await store.delete("/a/x_0000000001")
    await store.delete("/a/plain")
    created = await store.create("/a/y_", is_sequential=True)
    assert created.path == "/a/y_0000000002"


async def test_sequential_node_may_have_an_empty_name_prefix(stores):
    store = await open_with(stores, "/a")
    assert (await store.create("/a/", is_sequential=True)).path == "/a/0000000000"


# Multi operations


async def test_multi_applies_all_operations_with_one_zxid(stores):
    store = await open_with(stores, "/a", "/b")
    results = await store.multi(
        [Check("/a", 0), SetData("/a", b"1"), Create("/c"), Create("/c/d"), Delete("/b")]
    )
    assert [type(result) for result in results] == [
        type(None),
        Stat,
        CreateResult,
        CreateResult,
        type(None),
    ]
    assert sorted(await store.get_children("/")) == ["a", "c"]
    (node, stat) = await store.run([GetData("/a"), Exists("/c/d")])
    assert node.stat.modified_zxid == stat.created_zxid
    assert node.value == b"1"


async def test_operation_of_a_multi_sees_the_operations_before_it(stores):
    store = await open_with(stores, "/a")
    await store.multi(
        [
            SetData("/a", b"1", version=0),
            Check("/a", 1),
            SetData("/a", b"2", version=1),
            Create("/a/b"),
            Delete("/a/b"),
            Delete("/a", version=2),
            Create("/a", b"new"),
        ]
    )
    node = await store.get("/a")
    assert (node.value, node.stat.version) == (b"new", 0)


@pytest.mark.parametrize(
    ("operation", "cause"),
    [
        (Check("/a", 7), BadVersion),
        (Check("/no", 0), NoNode),
        (SetData("/a", b"", version=7), BadVersion),
        (SetData("/no", b""), NoNode),
        (Create("/a"), NodeExists),
        (Create("/no/b"), NoNode),
        (Create("/e/b"), NoChildrenForEphemerals),
        (Delete("/a", version=7), BadVersion),
        (Delete("/p"), NotEmpty),
        (Delete("/no"), NoNode),
    ],
    ids=str,
)
async def test_multi_does_nothing_if_an_operation_fails(stores, operation, cause):
    store = await open_with(stores, "/a", "/p", "/p/c", "/gone")
    await store.create("/e", is_ephemeral=True)
    before = await store.run(
        [GetData("/a"), GetData("/p"), GetData("/p/c"), GetData("/gone"), GetChildren("/")]
    )
    with pytest.raises(MultiFailed) as caught:
        await store.multi(
            [
                Create("/new"),
                Create("/p/n_", is_sequential=True),
                SetData("/a", b"1"),
                SetData("/p", b"1"),
                SetData("/a", b"2"),
                Delete("/gone"),
                operation,
                Create("/new/child"),
            ]
        )
    assert (caught.value.index, type(caught.value.cause)) == (6, cause)
    assert caught.value.cause.path == operation.path
    after = await store.run(
        [GetData("/a"), GetData("/p"), GetData("/p/c"), GetData("/gone"), GetChildren("/")]
    )
    assert sorted(after.pop()) == sorted(before.pop())
    assert after == before
    created = await store.create("/p/n_", is_sequential=True)
    assert created.path == "/p/n_0000000001"


# Sessions and ephemeral nodes


async def test_ephemeral_owner_is_the_session_id(stores):
    store = await open_with(stores, "/p")
    assert (await store.create("/e", is_ephemeral=True)).stat.ephemeral_owner == store.session_id
    assert (await store.exists("/p")).ephemeral_owner == 0
    assert store.session_id != 0


async def test_ephemeral_node_has_no_children(stores):
    store = await stores.open()
    await store.create("/e", is_ephemeral=True)
    assert await error_of(store.create("/e/c")) == (NoChildrenForEphemerals, "/e/c")


async def test_only_ephemeral_nodes_are_deleted_with_their_session(stores):
    store = await open_with(stores, "/p")
    await store.create("/p/e", b"", is_ephemeral=True)
    await store.create("/p/s_", b"", is_ephemeral=True, is_sequential=True)
    await store.create("/p/q", b"here")
    await stores.expire(store)
    await store.open_session()
    assert await store.get_children("/p") == ["q"]
    assert (await store.get("/p/q")).value == b"here"


async def test_sequence_numbers_continue_in_the_next_session(stores):
    store = await open_with(stores, "/p")
    await store.create("/p/s_", is_ephemeral=True, is_sequential=True)
    await stores.expire(store)
    await store.open_session()
    created = await store.create("/p/s_", is_ephemeral=True, is_sequential=True)
    assert created.path == "/p/s_0000000001"


async def test_new_session_has_a_new_id_and_higher_zxids(stores):
    store = await stores.open()
    before = await store.create("/e", is_ephemeral=True)
    await stores.expire(store)
    await store.open_session()
    after = await store.create("/e", is_ephemeral=True)
    assert after.stat.created_zxid > before.stat.created_zxid
    assert after.stat.ephemeral_owner != before.stat.ephemeral_owner


async def test_operations_between_sessions_are_rejected(stores):
    store = await open_with(stores, "/a")
    await stores.expire(store)
    assert (await error_of(store.get("/a")))[0] is SessionExpired
    with pytest.raises(SessionExpired):
        await store.run([GetData("/a"), Create("/b")])
    with pytest.raises(SessionExpired):
        await store.multi([Create("/b")])
    await store.open_session()
    assert await store.get_children("/") == ["a"]


async def test_listener_is_notified_when_a_session_expires_and_begins(stores):
    store, states = await stores.open(), []
    await store.exists("/")
    store.add_session_listener(states.append)
    await stores.expire(store)
    await store.open_session()
    await store.exists("/")
    assert [state for state in states if state is not SessionState.SUSPENDED] == [
        SessionState.EXPIRED,
        SessionState.CONNECTED,
    ]


async def test_another_session_sees_ephemeral_nodes_while_their_session_lasts(stores):
    one, other = await stores.open(), await stores.open()
    await one.create("/e", b"", is_ephemeral=True)
    assert (await other.exists("/e")).ephemeral_owner == one.session_id != other.session_id
    await one.close()
    assert await other.exists("/e") is None


async def test_another_session_may_write_and_delete_an_ephemeral_node(stores):
    one, other = await stores.open(), await stores.open()
    await one.create("/e", is_ephemeral=True)
    await other.set("/e", b"by another")
    assert (await one.get("/e")).stat.ephemeral_owner == one.session_id
    await other.delete("/e")
    assert await one.exists("/e") is None
