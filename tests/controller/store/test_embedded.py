"""The embedded store: when it responds, what remains after an error and after a restart."""

import asyncio
import subprocess
import sys

import pytest

from odradek.controller.store.base import (
    Check,
    Create,
    GetData,
    MultiFailed,
    NodeExists,
    SessionExpired,
    SessionState,
    SetData,
)
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import JournalError, JournalInUse, SqliteJournal
from tests.support.held_runs import HeldRuns
from tests.support.loops import at_end, on_a_thread
from tests.support.stores import NOW_MS, Seen

ROUNDS = 20


async def open_store(tmp_path, run=on_a_thread, now_ms=NOW_MS):
    journal = SqliteJournal(tmp_path / "metadata.db")
    store = EmbeddedStore(journal, run_in_thread=run, now_ms=lambda: now_ms)
    at_end(store.close)
    await store.open_session()
    return store


@pytest.fixture
def runs():
    return HeldRuns()


async def open_blocked_store(tmp_path, runs):
    """Return a store with one node, whose commits block from now on."""
    store = await open_store(tmp_path, runs)
    await store.create("/a", b"0")
    runs.done.clear()
    runs.holds = True
    at_end(unblock(runs))
    return store


def unblock(runs):
    async def release():
        runs.holds = False
        runs.release()

    return release


async def run_event_loop():
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def test_no_response_and_no_watch_event_before_the_commit(tmp_path, runs):
    store, seen = await open_blocked_store(tmp_path, runs), Seen()
    await store.get("/a", seen)
    async with asyncio.TaskGroup() as group:
        responses = [
            group.create_task(store.set("/a", b"1")),
            group.create_task(store.get("/a")),
            group.create_task(store.run([Create("/a")])),
        ]
        await run_event_loop()
        assert not any(response.done() for response in responses)
        assert seen.events == []
        runs.release()
    assert responses[1].result().value == b"1"
    assert len(seen.events) == 1


async def test_failed_multi_waits_for_the_commit_of_the_writes_that_it_saw(tmp_path, runs):
    store = await open_blocked_store(tmp_path, runs)
    async with asyncio.TaskGroup() as group:
        group.create_task(store.create("/b"))
        rejected = group.create_task(error_of(store.multi([Create("/c"), Create("/b")])))
        await run_event_loop()
        assert not rejected.done()
        runs.release()
    assert rejected.result() == (1, NodeExists)


async def error_of(multi):
    with pytest.raises(MultiFailed) as caught:
        await multi
    return caught.value.index, type(caught.value.cause)


async def test_concurrent_operations_share_a_commit(tmp_path, runs):
    store = await open_store(tmp_path, runs)
    runs.done.clear()
    await asyncio.gather(*(store.create(f"/{number}") for number in range(100)))
    assert runs.done == ["commit"]


async def test_operations_that_arrive_during_a_commit_share_the_next(tmp_path, runs):
    store = await open_blocked_store(tmp_path, runs)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(store.create("/b"))
        await run_event_loop()
        later = [group.create_task(store.create(f"/{number}")) for number in range(100)]
        reading = group.create_task(store.get_children("/"))
        await run_event_loop()
        assert len(runs.held) == 1
        runs.release()
        await run_event_loop()
        assert first.done()
        assert not any(each.done() for each in (*later, reading))
        assert len(runs.held) == 1
        runs.release()
    assert len(reading.result()) == 102
    assert runs.done == ["commit", "commit"]


async def test_reads_and_rejected_writes_commit_nothing(tmp_path, runs):
    store = await open_blocked_store(tmp_path, runs)
    await store.run([GetData("/a"), Create("/a"), SetData("/a", b"", version=7), Check("/a", 0)])
    await store.multi([Check("/a", 0)])
    with pytest.raises(MultiFailed):
        await store.multi([SetData("/a", b"1"), Create("/a")])
    assert runs.done == []


async def test_writes_to_ephemeral_nodes_raise_the_stored_zxid(tmp_path, runs):
    store = await open_store(tmp_path, runs)
    await store.create("/e", is_ephemeral=True)
    stat = await store.set("/e", b"1")
    await store.close()
    again = await open_store(tmp_path)
    assert again.session_id > stat.modified_zxid


@pytest.mark.parametrize("failure", [JournalError("full"), MemoryError("unforeseen")], ids=repr)
async def test_failed_commit_expires_the_session(tmp_path, runs, failure):
    store, seen, states = await open_blocked_store(tmp_path, runs), Seen(), []
    store.add_session_listener(states.append)
    await store.get("/a", seen)
    writing = [store.set("/a", b"1"), store.get("/a")]
    tasks = asyncio.gather(*writing, return_exceptions=True)
    await run_event_loop()
    waiting = [store.set("/a", b"2"), store.get("/a"), store.multi([Create("/b")])]
    tasks = asyncio.gather(tasks, *waiting, return_exceptions=True)
    await run_event_loop()
    runs.release(failure)
    (first, *rest) = await tasks
    assert [type(each) for each in (*first, *rest)] == [SessionExpired] * 5
    with pytest.raises(SessionExpired):
        await store.get("/a")
    assert states == [SessionState.EXPIRED]
    assert seen.events == []


async def test_next_session_reads_the_state_of_the_file(tmp_path, runs):
    store = await open_blocked_store(tmp_path, runs)
    before = store.session_id
    raise_error = asyncio.gather(store.set("/a", b"1"), return_exceptions=True)
    await run_event_loop()
    runs.release(JournalError("full"))
    await raise_error
    runs.holds = False
    await store.open_session()
    assert (await store.get("/a")).value == b"0"
    assert (await store.set("/a", b"2")).version == 1
    assert store.session_id > before


async def test_operation_of_a_cancelled_caller_is_still_done(tmp_path, runs):
    store = await open_blocked_store(tmp_path, runs)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await store.create("/b")
    others = asyncio.gather(store.create("/c"), store.exists("/b"))
    await run_event_loop()
    runs.holds = False
    runs.release()
    assert (await others)[1] is not None


async def test_close_completes_earlier_operations_first(tmp_path, runs):
    store = await open_blocked_store(tmp_path, runs)
    async with asyncio.TaskGroup() as group:
        created = group.create_task(store.create("/b"))
        await run_event_loop()
        waiting = group.create_task(store.create("/c"))
        await run_event_loop()
        group.create_task(store.close())
        await run_event_loop()
        with pytest.raises(SessionExpired):
            await store.get("/a")
        runs.holds = False
        runs.release()
    assert (created.result().path, waiting.result().path) == ("/b", "/c")
    assert runs.done == ["commit", "commit", "close"]
    again = await open_store(tmp_path)
    assert sorted(await again.get_children("/")) == ["a", "b", "c"]


async def test_close_waits_for_a_cancelled_open(tmp_path, runs):
    runs.holds = True
    store = EmbeddedStore(
        SqliteJournal(tmp_path / "metadata.db"), run_in_thread=runs, now_ms=lambda: NOW_MS
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await store.open_session()
    async with asyncio.TaskGroup() as group:
        closing = group.create_task(store.close())
        await run_event_loop()
        assert len(runs.held) == 1
        assert not closing.done()
        runs.holds = False
        runs.release()
    assert runs.done == ["open", "close"]


async def test_close_is_idempotent_and_allowed_before_open(tmp_path):
    store = EmbeddedStore(
        SqliteJournal(tmp_path / "metadata.db"), run_in_thread=on_a_thread, now_ms=lambda: NOW_MS
    )
    await store.close()
    await store.open_session()
    await store.close()
    await store.close()
    await store.open_session()
    await store.close()


async def test_failing_watch_does_not_stop_other_watches(tmp_path):
    store, seen, errors = await open_store(tmp_path), Seen(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    await store.create("/a")
    await store.run([GetData("/a", raise_error), GetData("/a", seen)])
    await store.set("/a", b"1")
    assert len(seen.events) == len(errors) == 1


def raise_error(_event):
    raise ZeroDivisionError


async def test_next_process_finds_everything_but_ephemeral_nodes(tmp_path):
    store = await open_store(tmp_path)
    await store.run([Create("/a", b"\0\xff"), Create("/a/größe", b"x" * 5000), Create("/gone")])
    await store.run([SetData("/a", b"1"), Create("/a/e", b"", is_ephemeral=True)])
    await store.create("/a/n_", is_sequential=True)
    await store.delete("/gone")
    reads = [GetData("/"), GetData("/a"), GetData("/a/größe"), GetData("/a/n_0000000002")]
    root, node, *before = await store.run(reads)
    await store.close()
    reopened = await open_store(tmp_path, now_ms=NOW_MS + 1)
    reopened_root, reopened_node, *after = await reopened.run(reads)
    assert (reopened_root, after) == (root, before)
    # The deletion of an ephemeral node is a change of its parent's children.
    assert reopened_node.stat == node.stat._replace(children_count=2, children_version=4)
    assert sorted(await reopened.get_children("/a")) == ["größe", "n_0000000002"]
    assert (await reopened.create("/a/n_", is_sequential=True)).path == "/a/n_0000000003"


async def test_epochs_increase_over_restarts(tmp_path):
    epochs = []
    for _ in range(4):
        store = await open_store(tmp_path)
        epochs.append(store.session_id)
        epochs.append((await store.create("/broker", is_ephemeral=True)).stat.created_zxid)
        await store.close()
    assert epochs == sorted(set(epochs))


async def test_session_ids_increase_over_restarts_without_a_write(tmp_path):
    session_ids = []
    for _ in range(4):
        store = await open_store(tmp_path)
        session_ids.append(store.session_id)
        await store.close()
    assert session_ids == [1, 2, 3, 4]


async def test_file_cannot_be_opened_twice(tmp_path):
    await open_store(tmp_path)
    with pytest.raises(JournalInUse, match=r"metadata\.db: in use"):
        await open_store(tmp_path)


OPEN = "import sys, pathlib; from odradek.controller.store.journal import SqliteJournal as Journal"
READ = "import sys, sqlite3; sqlite3.connect(sys.argv[1], timeout=0).execute('select * from node')"


@pytest.mark.parametrize(
    ("program", "error"),
    [(f"{OPEN}; Journal(pathlib.Path(sys.argv[1])).open()", "JournalInUse"), (READ, "locked")],
    ids=["store", "database shell"],
)
async def test_another_process_is_rejected_immediately(tmp_path, program, error):
    store = await open_store(tmp_path)
    await store.create("/a")
    command = [sys.executable, "-c", program, str(store._journal.file)]
    result = await on_a_thread(run_process, command)
    assert result.returncode == 1
    assert error in result.stderr
    assert await store.get_children("/") == ["a"]
    await store.close()
    assert (await on_a_thread(run_process, command)).returncode == 0


def run_process(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=30)
