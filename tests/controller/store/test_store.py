"""What every metadata store does, whatever is below it."""

import asyncio

import pytest

from odradek.controller.store.base import (
    BadVersion,
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    MultiFailed,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    StoreError,
)


async def made(stores, *paths):
    store = await stores.open()
    for path in paths:
        await store.create(path)
    return store


async def failure_of(operation):
    with pytest.raises(StoreError) as caught:
        await operation
    return type(caught.value), caught.value.path


async def test_a_new_node_has_its_value_and_the_first_version(stores):
    store = await stores.open()
    created = await store.create("/a", b"one")
    node = await store.get("/a")
    assert node == Node(b"one", created.stat)
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


async def test_a_write_raises_the_version_and_keeps_the_creation(stores):
    store = await made(stores, "/a")
    before = await store.exists("/a")
    written = await store.set("/a", b"two")
    assert await store.get("/a") == Node(b"two", written)
    assert written.version == before.version + 1
    assert written.created_zxid == before.created_zxid
    assert written.modified_zxid > before.modified_zxid


async def test_a_write_of_the_version_that_is_there_is_done(stores):
    store = await made(stores, "/a")
    assert (await store.set("/a", b"1", version=0)).version == 1
    assert (await store.set("/a", b"2", version=1)).version == 2
    await store.delete("/a", version=2)
    assert await store.exists("/a") is None


async def test_a_write_of_another_version_is_refused(stores):
    store = await made(stores, "/a")
    await store.set("/a", b"1")
    assert await failure_of(store.set("/a", b"2", version=0)) == (BadVersion, "/a")
    assert await failure_of(store.delete("/a", version=2)) == (BadVersion, "/a")
    assert (await store.get("/a")).value == b"1"


async def test_a_node_that_is_not_there_is_named(stores):
    store = await stores.open()
    assert await store.exists("/a") is None
    assert await failure_of(store.get("/a")) == (NoNode, "/a")
    assert await failure_of(store.children("/a")) == (NoNode, "/a")
    assert await failure_of(store.set("/a", b"")) == (NoNode, "/a")
    assert await failure_of(store.delete("/a")) == (NoNode, "/a")
    assert await failure_of(store.create("/a/b")) == (NoNode, "/a/b")


async def test_a_node_is_created_once(stores):
    store = await made(stores, "/a")
    assert await failure_of(store.create("/a", b"again")) == (NodeExists, "/a")
    assert (await store.get("/a")).value == b""


async def test_a_node_with_children_stays(stores):
    store = await made(stores, "/a", "/a/b")
    assert await failure_of(store.delete("/a")) == (NotEmpty, "/a")
    await store.delete("/a/b")
    await store.delete("/a")
    assert await store.exists("/a") is None


async def test_the_root_is_always_there(stores):
    store = await stores.open()
    assert await store.children("/") == []
    await store.create("/a")
    assert await store.children("/") == ["a"]


async def test_children_are_named_and_counted(stores):
    store = await made(stores, "/a", "/ab", "/a/b", "/a/c", "/a/c/d")
    assert sorted(await store.children("/a")) == ["b", "c"]
    assert sorted(await store.children("/")) == ["a", "ab"]
    assert (await store.exists("/a")).children_count == 2


async def test_a_node_counts_the_changes_among_its_children(stores):
    store = await made(stores, "/a", "/a/b", "/a/c")
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
    store = await made(stores, f"/{name}", f"/{name}/{name}")
    assert await store.children(f"/{name}") == [name]
    assert await store.children("/") == [name]


async def test_a_thousand_nodes_are_made_and_read_at_once(stores):
    store = await made(stores, "/a")
    paths = [f"/a/{number}" for number in range(1000)]
    outcomes = await store.run([Create(path, path.encode()) for path in paths])
    assert [created.path for created in outcomes] == paths
    outcomes = await store.run([Get(path) for path in paths])
    assert [node.value.decode() for node in outcomes] == paths
    assert sorted(await store.children("/a")) == sorted(path[3:] for path in paths)


async def test_operations_are_done_in_order_each_with_its_own_outcome(stores):
    store = await stores.open()
    outcomes = await store.run(
        [
            Create("/a", b"0"),
            Get("/a"),
            Create("/a"),
            Set("/a", b"1", version=0),
            Set("/a", b"2", version=0),
            Get("/a"),
            Children("/"),
            Check("/a", 1),
            Check("/a", 0),
            Delete("/a"),
            Exists("/a"),
            Get("/a"),
        ]
    )
    created, first, exists, written, stale, second, names, checked, unchecked, *gone = outcomes
    assert isinstance(created, Created)
    assert first == Node(b"0", created.stat)
    assert (type(exists), exists.path) == (NodeExists, "/a")
    assert second == Node(b"1", written)
    assert (type(stale), stale.path) == (BadVersion, "/a")
    assert names == ["a"]
    assert checked is None
    assert (type(unchecked), unchecked.path) == (BadVersion, "/a")
    assert gone[:2] == [None, None]
    assert isinstance(gone[2], NoNode)


async def test_what_is_asked_for_later_is_done_later(stores):
    store = await made(stores, "/a")
    runs = [store.run([Set("/a", b"%d" % number), Get("/a")]) for number in range(50)]
    answers = await asyncio.gather(*runs)
    assert [node.value for _, node in answers] == [b"%d" % number for number in range(50)]
    assert [stat.version for stat, _ in answers] == list(range(1, 51))


async def test_nothing_asked_is_nothing_answered(stores):
    store = await stores.open()
    assert await store.run([]) == []


# Sequences


async def test_sequential_nodes_are_numbered_with_ten_digits(stores):
    store = await made(stores, "/a")
    created = [await store.create("/a/n_", b"", is_sequential=True) for _ in range(3)]
    assert [each.path for each in created] == [
        "/a/n_0000000000",
        "/a/n_0000000001",
        "/a/n_0000000002",
    ]


async def test_a_number_counts_all_children_there_ever_were(stores):
    store = await made(stores, "/a", "/a/plain")
    await store.create("/a/x_", is_sequential=True)
    await store.delete("/a/x_0000000001")
    await store.delete("/a/plain")
    created = await store.create("/a/y_", is_sequential=True)
    assert created.path == "/a/y_0000000002"


async def test_a_name_that_is_only_a_number_may_be_asked_for(stores):
    store = await made(stores, "/a")
    assert (await store.create("/a/", is_sequential=True)).path == "/a/0000000000"


# Several writes as one


async def test_a_multi_does_all_with_one_zxid(stores):
    store = await made(stores, "/a", "/b")
    results = await store.multi(
        [Check("/a", 0), Set("/a", b"1"), Create("/c"), Create("/c/d"), Delete("/b")]
    )
    assert [type(result) for result in results] == [type(None), Stat, Created, Created, type(None)]
    assert sorted(await store.children("/")) == ["a", "c"]
    (node, stat) = await store.run([Get("/a"), Exists("/c/d")])
    assert node.stat.modified_zxid == stat.created_zxid
    assert node.value == b"1"


async def test_a_part_of_a_multi_sees_those_before_it(stores):
    store = await made(stores, "/a")
    await store.multi(
        [
            Set("/a", b"1", version=0),
            Check("/a", 1),
            Set("/a", b"2", version=1),
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
        (Set("/a", b"", version=7), BadVersion),
        (Set("/no", b""), NoNode),
        (Create("/a"), NodeExists),
        (Create("/no/b"), NoNode),
        (Create("/e/b"), NoChildrenForEphemerals),
        (Delete("/a", version=7), BadVersion),
        (Delete("/p"), NotEmpty),
        (Delete("/no"), NoNode),
    ],
    ids=str,
)
async def test_a_multi_does_nothing_if_a_part_fails(stores, operation, cause):
    store = await made(stores, "/a", "/p", "/p/c", "/gone")
    await store.create("/e", is_ephemeral=True)
    before = await store.run([Get("/a"), Get("/p"), Get("/p/c"), Get("/gone"), Children("/")])
    with pytest.raises(MultiFailed) as caught:
        await store.multi(
            [
                Create("/new"),
                Create("/p/n_", is_sequential=True),
                Set("/a", b"1"),
                Set("/p", b"1"),
                Set("/a", b"2"),
                Delete("/gone"),
                operation,
                Create("/new/child"),
            ]
        )
    assert (caught.value.slot, type(caught.value.cause)) == (6, cause)
    assert caught.value.cause.path == operation.path
    after = await store.run([Get("/a"), Get("/p"), Get("/p/c"), Get("/gone"), Children("/")])
    assert sorted(after.pop()) == sorted(before.pop())
    assert after == before
    created = await store.create("/p/n_", is_sequential=True)
    assert created.path == "/p/n_0000000001"


# Sessions and what belongs to them


async def test_an_ephemeral_node_names_its_session(stores):
    store = await made(stores, "/p")
    assert (await store.create("/e", is_ephemeral=True)).stat.ephemeral_owner == store.session_id
    assert (await store.exists("/p")).ephemeral_owner == 0
    assert store.session_id != 0


async def test_an_ephemeral_node_has_no_children(stores):
    store = await stores.open()
    await store.create("/e", is_ephemeral=True)
    assert await failure_of(store.create("/e/c")) == (NoChildrenForEphemerals, "/e/c")


async def test_ephemeral_nodes_go_with_their_session_and_others_stay(stores):
    store = await made(stores, "/p")
    await store.create("/p/e", b"", is_ephemeral=True)
    await store.create("/p/s_", b"", is_ephemeral=True, is_sequential=True)
    await store.create("/p/q", b"here")
    await stores.expire(store)
    await store.open_session()
    assert await store.children("/p") == ["q"]
    assert (await store.get("/p/q")).value == b"here"


async def test_numbers_go_on_in_the_next_session(stores):
    store = await made(stores, "/p")
    await store.create("/p/s_", is_ephemeral=True, is_sequential=True)
    await stores.expire(store)
    await store.open_session()
    created = await store.create("/p/s_", is_ephemeral=True, is_sequential=True)
    assert created.path == "/p/s_0000000001"


async def test_a_new_session_has_a_new_id_and_higher_zxids(stores):
    store = await stores.open()
    before = await store.create("/e", is_ephemeral=True)
    await stores.expire(store)
    await store.open_session()
    after = await store.create("/e", is_ephemeral=True)
    assert after.stat.created_zxid > before.stat.created_zxid
    assert after.stat.ephemeral_owner != before.stat.ephemeral_owner


async def test_nothing_is_done_between_sessions(stores):
    store = await made(stores, "/a")
    await stores.expire(store)
    assert (await failure_of(store.get("/a")))[0] is SessionExpired
    with pytest.raises(SessionExpired):
        await store.run([Get("/a"), Create("/b")])
    with pytest.raises(SessionExpired):
        await store.multi([Create("/b")])
    await store.open_session()
    assert await store.children("/") == ["a"]


async def test_a_listener_hears_of_the_end_and_the_beginning_of_sessions(stores):
    store, states = await stores.open(), []
    await store.exists("/")
    store.listen(states.append)
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
