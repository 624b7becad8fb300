"""One bit of a batch flipped, the last batch cut anywhere: the exact outcome.

"Effects of damage" in docs/storage-format.md is the table that is tested here and, for all other
files, in test_damage_beside_batches.py.  A broker was closed, or killed, one file is damaged, and
the broker starts again (tests/support/damage_scene.py).
"""

from collections import Counter
from dataclasses import replace

import pytest

from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.storage import (
    files,
)
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX
from tests.support.damage import Flip, a_bit_of_every_byte
from tests.support.damage_scene import (
    CORRUPT,
    FIRST_OFFSETS,
    STEPS,
    DamageScene,
    name_of,
    opened_scene,
)
from tests.support.fault_points import Unsynced
from tests.support.log_managers import EVENTS
from tests.support.logs import NOW_MS, append

SEGMENTS = (0, 7, 12, 17)
ACTIVE = 17


@pytest.fixture(autouse=True)
def _nothing_is_synced(monkeypatch):
    monkeypatch.setattr(files, "system", Unsynced())


@pytest.fixture
def closed(tmp_path):
    return DamageScene(tmp_path / "closed", is_clean=True)


@pytest.fixture
def killed(tmp_path):
    return DamageScene(tmp_path / "killed", is_clean=False)


# Batches

FIELDS = {
    "base offset": range(8),
    "length": range(8, 12),
    "leader epoch": range(12, 16),
    "magic": range(16, 17),
    "last offset delta": range(23, 27),
}


class Damaged:
    """A bit of a .log file: in which batch, by its number among all, and in which field of it."""

    def __init__(self, scene, base_offset, flip):
        content = scene.content(name_of(base_offset, "log"))
        number, begin = FIRST_OFFSETS.index(base_offset), 0
        for batch in batches_of_any_magic(content):
            if flip.position < begin + batch.size_bytes:
                break
            number, begin = number + 1, begin + batch.size_bytes
        self.number = number
        self.first, self.end = FIRST_OFFSETS[number : number + 2]
        self.segment_end = next((each for each in SEGMENTS if each > self.first), FIRST_OFFSETS[-1])
        self.bytes = flip.of(content)[begin:]
        self.size_bytes = batch.size_bytes
        at = flip.position - begin
        named = (field for field, positions in FIELDS.items() if at in positions)
        self.field = next(named, "what the checksum covers")

    @property
    def base_offset(self):
        """As the batch now says."""
        return int.from_bytes(self.bytes[:8], signed=True)

    @property
    def epoch(self):
        return int.from_bytes(self.bytes[12:16], signed=True)


def damages(scene, base_offset):
    """All bits of the header's fields that the checksum does not protect, one of other bytes."""

    def flips(content):
        yield from a_bit_of_every_byte(content)
        for position in (0, 3, 4, 7, 11, 12, 15, 16):
            yield from (Flip(position, bit) for bit in range(8) if bit != position % 8)

    for flip, answers, notes in scene.flipped(name_of(base_offset, "log"), flips):
        yield Damaged(scene, base_offset, flip), answers, notes


@pytest.mark.parametrize("base_offset", [12, ACTIVE])
def test_s3_beyond_the_recovery_point_the_log_is_cut_before_a_damaged_batch(killed, base_offset):
    seen = Counter()
    for damaged, answers, notes in damages(killed, base_offset):
        seen[damaged.field] += 1
        if damaged.field == "leader epoch":
            check_epochs_follow_the_batches(killed, damaged, answers)
        elif damaged.field == "base offset" and is_believed(damaged, base_offset):
            check_moved(killed, damaged, answers)
        else:
            assert answers == killed.cut_before(damaged.number), damaged.field
            assert ["discarding" in note for note in notes] == [True]
    assert all(seen[field] > 8 for field in FIELDS)


def is_believed(damaged, base_offset):
    return damaged.first < damaged.base_offset <= base_offset + RELATIVE_OFFSET_MAX


def check_moved(scene, damaged, answers):
    """Nothing tells that its offset is wrong: it stays, and what follows it contradicts it."""
    cut = scene.cut_before(damaged.number)
    assert answers.end_offset == damaged.base_offset + damaged.end - damaged.first
    assert answers.batches.items() >= cut.batches.items()
    later = {answers.batches[offset] for offset in answers.batches if offset >= damaged.first}
    assert later == {damaged.bytes[: damaged.size_bytes]}


def check_epochs_follow_the_batches(scene, damaged, answers):
    assert without_epochs(answers, damaged) == without_epochs(scene.whole, damaged)
    first_of = dict(zip(FIRST_OFFSETS, STEPS, strict=False))
    for offset in FIRST_OFFSETS[damaged.number + 1 : -1]:
        assert epoch_at(answers, offset) == first_of[offset].leader_epoch
    if damaged.epoch < 0:
        earlier = [entry for entry in scene.whole.epochs if entry[1] < damaged.first]
        assert list(answers.epochs[: len(earlier)]) == earlier


def epoch_at(answers, offset):
    return next(epoch for epoch, start in reversed(answers.epochs) if start <= offset)


def without_epochs(answers, damaged):
    """All but what a leader epoch is told in; the bytes of the damaged batch among them."""
    others = {
        offset: content
        for offset, content in answers.batches.items()
        if not damaged.first <= offset < damaged.end
    }
    timestamps = {at: found and found.offset for at, found in answers.timestamps.items()}
    return replace(answers, batches=others, timestamps=timestamps, epochs=())


class TestSyncedBatches:
    """A damaged batch goes out as it is or is CORRUPT_MESSAGE; all others stay as they were."""

    def test_s3_below_the_recovery_point(self, killed):
        for damaged, answers, notes in damages(killed, 7):
            check_left_alone(killed, damaged, answers)
            assert notes == []

    def test_s3_in_a_sealed_segment_of_a_closed_log(self, closed):
        for damaged, answers, notes in damages(closed, 12):
            check_left_alone(closed, damaged, answers)
            assert notes == []

    def test_s3_in_the_active_segment_of_a_closed_log(self, closed):
        for damaged, answers, notes in damages(closed, ACTIVE):
            if answers.end_offset < closed.whole.end_offset:
                assert damaged.field in ("base offset", "length", "magic", "last offset delta")
                assert answers == closed.cut_before(damaged.number)
                assert any("is recovered" in note for note in notes)
            elif answers.end_offset > closed.whole.end_offset:
                assert damaged.number == len(STEPS) - 1
                assert damaged.field in ("base offset", "last offset delta")
            else:
                check_left_alone(closed, damaged, answers)


def check_left_alone(scene, damaged, answers):
    whole = scene.whole
    for fact in ("start_offset", "end_offset", "high_watermark", "last_stable_offset"):
        assert getattr(answers, fact) == getattr(whole, fact)
    assert (answers.aborted, answers.epochs) == (whole.aborted, whole.epochs)
    check_producers(answers.producers, whole.producers)
    for offset, content in whole.batches.items():
        answer = answers.batches[offset]
        if damaged.field not in UNSOUND and damaged.first <= offset < damaged.end:
            assert answer == damaged.bytes[: damaged.size_bytes]
        elif damaged.field not in UNSOUND or not damaged.first <= offset < damaged.segment_end:
            assert answer == content
        elif answer not in (content, CORRUPT, whole.batches.get(damaged.end)):
            assert damaged.bytes.startswith(answer)
    if damaged.field not in UNSOUND:
        check_timestamps(answers.timestamps, whole.timestamps, damaged)


#: What tells where batches begin, and which offsets they hold.
UNSOUND = ("base offset", "length", "magic", "last offset delta")


def check_timestamps(found, whole, damaged):
    for at, record in whole.items():
        if found[at] == CORRUPT or record is None:
            continue
        if damaged.first <= record.offset < damaged.end:
            # The largest timestamp of the batch may be what is damaged.
            assert found[at] is None or found[at].offset >= record.offset
        else:
            assert found[at] == record


def check_producers(found, whole):
    """Of the batches that a producer may send again, the damaged one may be forgotten."""
    assert found.keys() == whole.keys()
    for producer_id, state in whole.items():
        other = found[producer_id]
        assert replace(other, packed_batches=b"") == replace(state, packed_batches=b"")
        assert other.last_batch.last_sequence == state.last_batch.last_sequence


# A torn tail


def test_s2_cut_at_every_byte_of_the_last_batch_the_log_ends_before_it(killed):
    name, last = name_of(ACTIVE, "log"), len(STEPS) - 1
    content = killed.content(name)
    begin = len(content) - len(killed.whole.batches[FIRST_OFFSETS[last]])
    for length in range(begin, len(content)):
        answers, notes = killed.with_content(name, content[:length])
        assert answers == killed.cut_before(last)
        assert len(notes) == (length > begin)


def test_s2_the_next_append_takes_the_offset_of_the_torn_batch(killed):
    path = killed.path(name_of(ACTIVE, "log"))
    for removed in (1, 20, 60):
        path.write_bytes(killed.content(name_of(ACTIVE, "log"))[:-removed])
        manager = opened_scene(killed.root)
        with manager.find(EVENTS) as log:
            assert append(log, b"next", leader_epoch=7).first_offset == FIRST_OFFSETS[-2]
        manager.close(now_ms=NOW_MS)
        manager = opened_scene(killed.root)
        assert manager.find(EVENTS).log.log_end_offset == FIRST_OFFSETS[-2] + 1
        manager.close_handlers()
        killed.restarted()
