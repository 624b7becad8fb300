"""A small data directory with everything in it, to be damaged and opened again.

``EVENTS`` is made by ``STEPS``, one batch each, in four segments: the first two are below the
recovery point, the third and the active one beyond it, if the broker was killed.  The first batch
is half deleted; transactions are committed, aborted and open.  ``ORDERS`` is beside it.

A log that is cut before its n-th batch must be one that never had more than n batches, and that is
how it is told what such a log answers: ``written_scene`` with fewer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.types import Uuid
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.producer_state.producer_state_entry import ProducerStateEntry
from odradek.storage.settings import TopicSettings
from odradek.storage.timestamp_lookup import TimestampAndOffset, offset_for_timestamp
from odradek.storage.topic_settings_registry import TopicSettingsRegistry
from odradek.storage.transaction_index import AbortedTxn
from odradek.storage.unified_log import UnifiedLog
from tests.support.damage import Flip, KeptFiles, every_bit
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    PRODUCERS,
    Notebook,
    carry_all,
    flush,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, append, bytes_of, end_transaction

TOPIC_ID = Uuid.parse("kJx2sMbBTrSYcVzKHh3v5A")
CLUSTER_ID = "8Yq3pKpeQ3Wv9xu0h6eGxg"
#: Every second batch is in the index.
SETTINGS = TopicSettings(index_interval_bytes=100, segment_index_bytes=96)
START_OFFSET = 1
CORRUPT = "CORRUPT_MESSAGE"
ORDER = b"an order"


@dataclass(frozen=True, slots=True)
class Step:
    """One batch: ``count`` records of a producer, or the end of its transaction."""

    count: int = 1
    producer_id: int = -1
    sequence: int = -1
    is_transactional: bool = False
    is_commit: bool | None = None
    leader_epoch: int = 0
    rolls: bool = False
    is_synced: bool = False


STEPS = (
    Step(2),
    Step(producer_id=7, sequence=0),
    Step(producer_id=8, sequence=0, is_transactional=True),
    Step(producer_id=8, is_commit=False),
    Step(2, leader_epoch=3),
    Step(producer_id=7, sequence=1, leader_epoch=3, rolls=True),
    Step(producer_id=9, sequence=0, is_transactional=True, leader_epoch=3),
    Step(leader_epoch=3),
    Step(producer_id=8, sequence=1, is_transactional=True, leader_epoch=3),
    Step(producer_id=9, is_commit=False, leader_epoch=3, is_synced=True),
    Step(2, leader_epoch=5, rolls=True),
    Step(producer_id=8, is_commit=True, leader_epoch=5),
    Step(producer_id=7, sequence=2, leader_epoch=5),
    Step(producer_id=9, sequence=1, is_transactional=True, leader_epoch=5),
    Step(producer_id=7, sequence=3, leader_epoch=5, rolls=True),
    Step(2, leader_epoch=6),
    Step(producer_id=8, sequence=2, is_transactional=True, leader_epoch=6),
    Step(producer_id=9, is_commit=False, leader_epoch=6),
    Step(producer_id=7, sequence=4, leader_epoch=6),
    Step(2, leader_epoch=6),
)
#: Of each batch, and the end of the log.
FIRST_OFFSETS = (0, *accumulate(step.count for step in STEPS))
#: No log of the scene ends here, unless a damaged batch says so.
OFFSETS_ASKED = 2 * FIRST_OFFSETS[-1]


@dataclass(frozen=True, slots=True)
class Answers:
    """What a log says to whoever asks it; CORRUPT where the answer is that error."""

    start_offset: int
    end_offset: int
    high_watermark: int
    last_stable_offset: int
    batches: dict[int, bytes | str]  # the first of what is returned at each offset
    timestamps: dict[int, TimestampAndOffset | str | None]
    aborted: list[AbortedTxn]
    producers: dict[int, ProducerStateEntry]
    epochs: tuple[tuple[int, int], ...]
    topic_id: Uuid | None
    cleaned_to: int | None  # of ORDERS


def written_scene(path: Path, count: int = len(STEPS), *, is_clean: bool) -> None:
    """The directory of a broker that took the first ``count`` steps and was closed, or killed."""
    manager = opened_scene(path)
    orders = written(manager, ORDERS, ORDER)
    hosted = manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    with hosted as log:
        for number, step in enumerate(STEPS[:count]):
            _take(log, number, step)
            if number == 0:
                log.maybe_increment_log_start_offset(START_OFFSET)
            if step.is_synced:
                flush(hosted)
                manager.cleaner_manager.update_checkpoint(orders.log, 1)
                carry_all(manager.checkpoint_tasks())
    if is_clean:
        manager.close(now_ms=NOW_MS)
    else:
        manager.close_handlers()


def _take(log: UnifiedLog, number: int, step: Step) -> None:
    if step.rolls:
        log.roll(now_ms=NOW_MS)
    if step.is_commit is not None:
        end_transaction(
            log, producer_id=step.producer_id, commit=step.is_commit, leader_epoch=step.leader_epoch
        )
        return
    append(
        log,
        *(b"value %d.%d" % (number, each) for each in range(step.count)),
        leader_epoch=step.leader_epoch,
        timestamp=NOW_MS + 10 * number,
        producer_id=step.producer_id,
        producer_epoch=-1 if step.producer_id < 0 else 0,
        base_sequence=step.sequence,
        is_transactional=step.is_transactional,
    )


def opened_scene(path: Path, notebook: Notebook | None = None) -> LogManager:
    """As broker 1 starts; DirectoryRefused if it does not."""
    directories = LogDirectories([path], notebook or Notebook())
    directories.open()
    with ExitStack() as undo:
        undo.callback(directories.release)
        directories.write_meta_properties(broker_id=1, cluster_id=CLUSTER_ID)
        manager = LogManager(directories, TopicSettingsRegistry(SETTINGS, PRODUCERS))
        manager.load(now_ms=NOW_MS)
        undo.pop_all()
    return manager


def answers_of(manager: LogManager) -> Answers:
    hosted, orders = manager.find(EVENTS), manager.find(ORDERS)
    assert hosted is not None
    assert orders is not None
    assert values_in(orders) == [ORDER]
    with hosted as log:
        end = log.log_end_offset
        offsets = range(log.log_start_offset, min(end, OFFSETS_ASKED))
        return Answers(
            start_offset=log.log_start_offset,
            end_offset=end,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            batches={offset: _first_batch(log, offset) for offset in offsets},
            timestamps={at: _found(log, at) for at in timestamps_asked()},
            aborted=log.collect_aborted_transactions(start=log.log_start_offset, end=end),
            producers=dict(log.producer_state_manager.active_producers),
            epochs=tuple(
                (entry.epoch, entry.start_offset) for entry in log.leader_epoch_cache.entries
            ),
            topic_id=hosted.topic_id,
            cleaned_to=manager.cleaner_manager.last_clean_offset(orders.log),
        )


def timestamps_asked() -> range:
    """Between those of the batches, before the first and after the last."""
    return range(NOW_MS - 5, NOW_MS + 10 * len(STEPS), 10)


def _first_batch(log: UnifiedLog, offset: int) -> bytes | str:
    try:
        return bytes_of(log.read(offset, max_bytes=1, max_offset=log.log_end_offset))
    except CorruptMessage:
        return CORRUPT


def _found(log: UnifiedLog, timestamp: int) -> TimestampAndOffset | str | None:
    try:
        return offset_for_timestamp(log, timestamp)
    except CorruptMessage:
        return CORRUPT


class DamageScene:
    """A directory that is damaged again and again, and what it answered when it was whole."""

    def __init__(self, root: Path, *, is_clean: bool) -> None:
        self.root = root / "logs"
        self._others = root / "shorter"
        self._is_clean = is_clean
        written_scene(self.root, is_clean=is_clean)
        self._kept = KeptFiles(self.root)
        self.whole, self.notes = self.restarted()
        assert self.notes == []
        self._shorter: dict[int, Answers] = {}

    def restarted(self) -> tuple[Answers, list[str]]:
        """What the directory answers now, and what was noticed; all files are then put back."""
        notebook = Notebook()
        try:
            manager = opened_scene(self.root, notebook)
            answers = answers_of(manager)
            manager.close_handlers()
        finally:
            self._kept.put_back()
        assert notebook.failed == []
        return answers, notebook.notes

    def path(self, name: str) -> Path:
        return self.root / name

    def content(self, name: str) -> bytes:
        return self._kept.contents[self.path(name)]

    def with_content(self, name: str, content: bytes) -> tuple[Answers, list[str]]:
        self.path(name).write_bytes(content)
        return self.restarted()

    def flipped(
        self, name: str, flips: Callable[[bytes], Iterable[Flip]] = every_bit
    ) -> Iterator[tuple[Flip, Answers, list[str]]]:
        """Each bit, what is answered then, and what was noticed."""
        for flip in flips(self.content(name)):
            answers, notes = self.with_content(name, flip.of(self.content(name)))
            yield flip, answers, notes

    def cut_before(self, number: int) -> Answers:
        """What a log answers that never had the batch with this number, nor any later one."""
        if number not in self._shorter:
            path = self._others / str(number)
            path.mkdir(parents=True)
            written_scene(path, number, is_clean=self._is_clean)
            manager = opened_scene(path)
            self._shorter[number] = answers_of(manager)
            manager.close_handlers()
        return self._shorter[number]


def name_of(base_offset: int, ending: str) -> str:
    """Of a file of EVENTS."""
    return f"events-0/{base_offset:020}.{ending}"
