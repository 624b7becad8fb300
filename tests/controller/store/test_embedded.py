"""When the embedded store answers, what a failure leaves, and what the next process finds."""

import asyncio
import subprocess
import sys

import pytest

from odradek.controller.store.base import (
    Check,
    Create,
    Get,
    MultiFailed,
    NodeExists,
    SessionExpired,
    SessionState,
    Set,
)
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import JournalError, JournalInUse, SqliteJournal
from tests.support.held_runs import HeldRuns
from tests.support.loops import at_end, on_a_thread
from tests.support.stores import NOW_MS, Seen

ROUNDS = 20


async def opened(tmp_path, run=on_a_thread, now_ms=NOW_MS):
    journal = SqliteJournal(tmp_path / "metadata.db")
    store = EmbeddedStore(journal, run=run, now_ms=lambda: now_ms)
    at_end(store.close)
    await store.open_session()
    return store


@pytest.fixture
def runs():
    return HeldRuns()


async def held(tmp_path, runs):
    """A store with one node, whose commits are held from now on."""
    store = await opened(tmp_path, runs)
    await store.create("/a", b"0")
    runs.done.clear()
    runs.holds = True
    at_end(released(runs))
    return store


def released(runs):
    async def release():
        runs.holds = False
        runs.release()

    return release


async def rounds():
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def test_nobody_is_answered_or_called_before_the_commit(tmp_path, runs):
    store, seen = await held(tmp_path, runs), Seen()
    await store.get("/a", seen)
    async with asyncio.TaskGroup() as group:
        answers = [
            group.create_task(store.set("/a", b"1")),
            group.create_task(store.get("/a")),
            group.create_task(store.run([Create("/a")])),
        ]
        await rounds()
        assert not any(answer.done() for answer in answers)
        assert seen.events == []
        runs.release()
    assert answers[1].result().value == b"1"
    assert len(seen.events) == 1


async def test_a_multi_that_fails_waits_for_what_it_has_seen(tmp_path, runs):
    store = await held(tmp_path, runs)
    async with asyncio.TaskGroup() as group:
        group.create_task(store.create("/b"))
        refused = group.create_task(failure_of(store.multi([Create("/c"), Create("/b")])))
        await rounds()
        assert not refused.done()
        runs.release()
    assert refused.result() == (1, NodeExists)


async def failure_of(multi):
    with pytest.raises(MultiFailed) as caught:
        await multi
    return caught.value.slot, type(caught.value.cause)


async def test_what_is_asked_at_once_shares_a_commit(tmp_path, runs):
    store = await opened(tmp_path, runs)
    runs.done.clear()
    await asyncio.gather(*(store.create(f"/{number}") for number in range(100)))
    assert runs.done == ["commit"]


async def test_what_arrives_during_a_commit_shares_the_next(tmp_path, runs):
    store = await held(tmp_path, runs)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(store.create("/b"))
        await rounds()
        later = [group.create_task(store.create(f"/{number}")) for number in range(100)]
        reading = group.create_task(store.children("/"))
        await rounds()
        assert len(runs.held) == 1
        runs.release()
        await rounds()
        assert first.done()
        assert not any(each.done() for each in (*later, reading))
        assert len(runs.held) == 1
        runs.release()
    assert len(reading.result()) == 102
    assert runs.done == ["commit", "commit"]


async def test_reads_and_refusals_commit_nothing(tmp_path, runs):
    store = await held(tmp_path, runs)
    await store.run([Get("/a"), Create("/a"), Set("/a", b"", version=7), Check("/a", 0)])
    await store.multi([Check("/a", 0)])
    with pytest.raises(MultiFailed):
        await store.multi([Set("/a", b"1"), Create("/a")])
    assert runs.done == []


async def test_writes_that_only_ephemeral_nodes_see_raise_the_kept_zxid(tmp_path, runs):
    store = await opened(tmp_path, runs)
    await store.create("/e", is_ephemeral=True)
    stat = await store.set("/e", b"1")
    await store.close()
    again = await opened(tmp_path)
    assert again.session_id > stat.modified_zxid


@pytest.mark.parametrize("failure", [JournalError("full"), MemoryError("unforeseen")], ids=repr)
async def test_a_commit_that_fails_ends_the_session(tmp_path, runs, failure):
    store, seen, states = await held(tmp_path, runs), Seen(), []
    store.listen(states.append)
    await store.get("/a", seen)
    writing = [store.set("/a", b"1"), store.get("/a")]
    tasks = asyncio.gather(*writing, return_exceptions=True)
    await rounds()
    waiting = [store.set("/a", b"2"), store.get("/a"), store.multi([Create("/b")])]
    tasks = asyncio.gather(tasks, *waiting, return_exceptions=True)
    await rounds()
    runs.release(failure)
    (first, *rest) = await tasks
    assert [type(each) for each in (*first, *rest)] == [SessionExpired] * 5
    with pytest.raises(SessionExpired):
        await store.get("/a")
    assert states == [SessionState.EXPIRED]
    assert seen.events == []


async def test_the_next_session_finds_what_the_file_has(tmp_path, runs):
    store = await held(tmp_path, runs)
    before = store.session_id
    failing = asyncio.gather(store.set("/a", b"1"), return_exceptions=True)
    await rounds()
    runs.release(JournalError("full"))
    await failing
    runs.holds = False
    await store.open_session()
    assert (await store.get("/a")).value == b"0"
    assert (await store.set("/a", b"2")).version == 1
    assert store.session_id > before


async def test_an_operation_whose_caller_left_is_done_all_the_same(tmp_path, runs):
    store = await held(tmp_path, runs)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await store.create("/b")
    others = asyncio.gather(store.create("/c"), store.exists("/b"))
    await rounds()
    runs.holds = False
    runs.release()
    assert (await others)[1] is not None


async def test_closing_does_first_what_was_asked_for_before(tmp_path, runs):
    store = await held(tmp_path, runs)
    async with asyncio.TaskGroup() as group:
        created = group.create_task(store.create("/b"))
        await rounds()
        waiting = group.create_task(store.create("/c"))
        await rounds()
        group.create_task(store.close())
        await rounds()
        with pytest.raises(SessionExpired):
            await store.get("/a")
        runs.holds = False
        runs.release()
    assert (created.result().path, waiting.result().path) == ("/b", "/c")
    assert runs.done == ["commit", "commit", "close"]
    again = await opened(tmp_path)
    assert sorted(await again.children("/")) == ["a", "b", "c"]


async def test_closing_waits_for_an_opening_that_was_given_up(tmp_path, runs):
    runs.holds = True
    store = EmbeddedStore(SqliteJournal(tmp_path / "metadata.db"), run=runs, now_ms=lambda: NOW_MS)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await store.open_session()
    async with asyncio.TaskGroup() as group:
        closing = group.create_task(store.close())
        await rounds()
        assert len(runs.held) == 1
        assert not closing.done()
        runs.holds = False
        runs.release()
    assert runs.done == ["open", "close"]


async def test_a_store_may_be_closed_twice_or_unopened(tmp_path):
    store = EmbeddedStore(
        SqliteJournal(tmp_path / "metadata.db"), run=on_a_thread, now_ms=lambda: NOW_MS
    )
    await store.close()
    await store.open_session()
    await store.close()
    await store.close()
    await store.open_session()
    await store.close()


async def test_a_watch_that_fails_stops_no_other(tmp_path):
    store, seen, failures = await opened(tmp_path), Seen(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    await store.create("/a")
    await store.run([Get("/a", failing), Get("/a", seen)])
    await store.set("/a", b"1")
    assert len(seen.events) == len(failures) == 1


def failing(_event):
    raise ZeroDivisionError


async def test_another_process_finds_everything_but_ephemeral_nodes(tmp_path):
    store = await opened(tmp_path)
    await store.run([Create("/a", b"\0\xff"), Create("/a/größe", b"x" * 5000), Create("/gone")])
    await store.run([Set("/a", b"1"), Create("/a/e", b"", is_ephemeral=True)])
    await store.create("/a/n_", is_sequential=True)
    await store.delete("/gone")
    reads = [Get("/"), Get("/a"), Get("/a/größe"), Get("/a/n_0000000002")]
    root, node, *before = await store.run(reads)
    await store.close()
    again = await opened(tmp_path, now_ms=NOW_MS + 1)
    found, found_node, *after = await again.run(reads)
    assert (found, after) == (root, before)
    # The end of an ephemeral node is a change among its parent's children.
    assert found_node.stat == node.stat._replace(children_count=2, children_version=4)
    assert sorted(await again.children("/a")) == ["größe", "n_0000000002"]
    assert (await again.create("/a/n_", is_sequential=True)).path == "/a/n_0000000003"


async def test_epochs_grow_over_restarts(tmp_path):
    epochs = []
    for _ in range(4):
        store = await opened(tmp_path)
        epochs.append(store.session_id)
        epochs.append((await store.create("/broker", is_ephemeral=True)).stat.created_zxid)
        await store.close()
    assert epochs == sorted(set(epochs))


async def test_session_ids_grow_over_restarts_without_a_write(tmp_path):
    session_ids = []
    for _ in range(4):
        store = await opened(tmp_path)
        session_ids.append(store.session_id)
        await store.close()
    assert session_ids == [1, 2, 3, 4]


async def test_a_file_is_open_once(tmp_path):
    await opened(tmp_path)
    with pytest.raises(JournalInUse, match=r"metadata\.db: in use"):
        await opened(tmp_path)


OPEN = "import sys, pathlib; from odradek.controller.store.journal import SqliteJournal as Journal"
READ = "import sys, sqlite3; sqlite3.connect(sys.argv[1], timeout=0).execute('select * from node')"


@pytest.mark.parametrize(
    ("program", "error"),
    [(f"{OPEN}; Journal(pathlib.Path(sys.argv[1])).open()", "JournalInUse"), (READ, "locked")],
    ids=["store", "database shell"],
)
async def test_another_process_is_refused_at_once(tmp_path, program, error):
    store = await opened(tmp_path)
    await store.create("/a")
    command = [sys.executable, "-c", program, str(store._journal.file)]
    refused = await on_a_thread(ended, command)
    assert refused.returncode == 1
    assert error in refused.stderr
    assert await store.children("/") == ["a"]
    await store.close()
    assert (await on_a_thread(ended, command)).returncode == 0


def ended(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=30)
