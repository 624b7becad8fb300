"""A process that writes to an embedded store and is killed: both its sides.

It forks for every order.  The child opens the store and does ``step`` after step, several at once,
and tells of every one that was answered.  Steps are numbered in the order in which they were asked
for, and numbers go on where the file says; so after any crash the tree must be just what
``check_steps`` says, for a number no lower than the last one told.

    {"pid": 123}            the child, for whoever wants to kill it
    {"done": 7, "zxid": 9}  step 7 was answered
    {"failed": "..."}       the store failed, with these words
"""

import asyncio
import os
import resource
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from odradek.controller.store.base import (
    Create,
    CreateResult,
    Delete,
    MetadataStore,
    SetData,
    StoreError,
    Write,
)
from odradek.controller.store.data_tree import DataTree
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import JournalError, SqliteJournal
from tests.support.forking_process import ForkingProcess, serve, tell
from tests.support.loops import on_a_thread

KEPT_STEPS = 10
VALUE = b"x" * 700


@dataclass(frozen=True, kw_only=True)
class Order:
    file: str
    steps: int
    at_a_time: int = 4
    kill_at_statement: int = 0  # counted from the first one that opens the file
    file_bytes_max: int = 0


@dataclass
class Told:
    """What a child told before its end."""

    steps: list[int] = field(default_factory=list)
    zxid: int = 0
    failures: list[str] = field(default_factory=list)
    was_killed: bool = False


class StoreWriter:
    """The test's side."""

    def __init__(self, process: ForkingProcess) -> None:
        self._process = process

    def run(self, order: Order, *, kill_after: int = 0) -> Told:
        """Killed when so many steps were told, wherever it is then."""
        told, pid = Told(), 0
        for each in self._process.told(asdict(order)):
            match each:
                case {"pid": pid}:
                    continue
                case {"done": step, "zxid": zxid}:
                    told.steps.append(step)
                    told.zxid = max(told.zxid, zxid)
                    if len(told.steps) == kill_after:
                        os.kill(pid, signal.SIGKILL)
                case {"failed": words}:
                    told.failures.append(words)
        told.was_killed = self._process.was_killed
        return told


@contextmanager
def store_writer() -> Iterator[StoreWriter]:
    process = ForkingProcess("tests.support.store_writer")
    try:
        yield StoreWriter(process)
    finally:
        process.stop()


def check_steps(tree: DataTree, *, at_least: int) -> int:
    """The last step that is kept; all before it are there, and nothing is of any after it."""
    records = {record.path: record for record in tree.records()}
    if "/last" not in records:
        assert at_least < 0
        assert set(records) <= {"/", "/n", "/m"}
        return -1
    last = int(records["/last"].value)
    assert last >= at_least
    assert records["/last"].version == last + 1
    steps = range(max(0, last + 1 - KEPT_STEPS), last + 1)
    expected = {f"{parent}/{step}" for parent in ("/n", "/m") for step in steps}
    assert set(records) == expected | {"/", "/n", "/m", "/last"}
    assert all(records[path].value == VALUE for path in expected)
    return last


def step_parts(step: int) -> list[Write]:
    parts: list[Write] = [
        Create(f"/n/{step}", VALUE),
        SetData("/last", b"%d" % step),
        Create(f"/m/{step}", VALUE),
    ]
    if step >= KEPT_STEPS:
        parts += [Delete(f"/n/{step - KEPT_STEPS}"), Delete(f"/m/{step - KEPT_STEPS}")]
    return parts


class KillingJournal(SqliteJournal):
    """Ends the process at a statement to the database."""

    def __init__(self, file: Path, kill_at_statement: int) -> None:
        super().__init__(file)
        self._statements_left = kill_at_statement

    def _initialize(self, connection):
        connection.set_trace_callback(self._count)
        return super()._initialize(connection)

    def _count(self, _statement: str) -> None:
        self._statements_left -= 1
        if self._statements_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def write(order: Order) -> None:
    tell({"pid": os.getpid()})
    journal = KillingJournal(Path(order.file), order.kill_at_statement)
    store = EmbeddedStore(journal, run_in_thread=on_a_thread, now_ms=lambda: 1)
    await store.open_session()
    if order.file_bytes_max:
        await write_until_full(store, order)
    await write_steps(store, order)
    await store.close()


async def write_until_full(store: MetadataStore, order: Order) -> None:
    """Past the limit the store fails; it does not open again while nothing can be written."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (order.file_bytes_max, most))
    await tell_failure(write_steps(store, order))
    await tell_failure(store.exists("/"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, most))
    await tell_failure(store.open_session())
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await store.open_session()


async def tell_failure(attempt: Awaitable[object]) -> None:
    try:
        await attempt
    except* (StoreError, JournalError) as group:
        failure = group.exceptions[0]
        tell({"failed": f"{type(failure).__name__} {failure}"})


async def write_steps(store: MetadataStore, order: Order) -> None:
    await store.run([Create("/n"), Create("/m"), Create("/e", VALUE, is_ephemeral=True)])
    last = await store.exists("/last")
    # It is created with the first step, whose write is the first to it: versions start at 0.
    numbers = iter(range(last.version, last.version + order.steps) if last else range(order.steps))

    async def some_of_them() -> None:
        for number in numbers:
            parts = step_parts(number)
            if number == 0:
                parts.insert(0, Create("/last"))
            results = await store.multi(parts)
            created = next(each for each in results if isinstance(each, CreateResult))
            tell({"done": number, "zxid": created.stat.created_zxid})

    async with asyncio.TaskGroup() as group:
        for _ in range(order.at_a_time):
            group.create_task(some_of_them())


if __name__ == "__main__":
    serve(lambda order: asyncio.run(write(Order(**order))))
