"""One bit of any file but a .log flipped: the exact outcome.

See test_damage.py.
"""

import re
from dataclasses import replace

import pytest

from odradek.protocol.errors import InconsistentTopicId
from odradek.storage import (
    clean_shutdown,
    files,
    leader_epoch_file_cache,
    meta_properties,
    partition_metadata,
)
from odradek.storage.meta_properties import InvalidLogDirectory
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from tests.support.damage import KeptFiles, a_bit_of_every_byte, every_bit
from tests.support.damage_scene import (
    CLUSTER_ID,
    FIRST_OFFSETS,
    TOPIC_ID,
    DamageScene,
    name_of,
    opened_scene,
)
from tests.support.fault_points import Unsynced
from tests.support.log_managers import EVENTS
from tests.support.logs import NOW_MS

ACTIVE = 17


@pytest.fixture(autouse=True)
def _nothing_is_synced(monkeypatch):
    monkeypatch.setattr(files, "system", Unsynced())


@pytest.fixture
def closed(tmp_path):
    return DamageScene(tmp_path, is_clean=True)


@pytest.fixture
def killed(tmp_path):
    return DamageScene(tmp_path, is_clean=False)


@pytest.fixture(params=[True, False], ids=["closed", "killed"])
def scene(request, tmp_path):
    return DamageScene(tmp_path, is_clean=request.param)


# Indexes and snapshots


@pytest.mark.parametrize("ending", ["index", "timeindex"])
def test_s4_y4_no_bit_of_an_index_changes_an_answer(scene, ending):
    for base_offset in (7, ACTIVE):
        for flip, answers, _ in scene.flipped(name_of(base_offset, ending), a_bit_of_every_byte):
            assert answers == scene.whole, flip


def test_s4_no_bit_of_a_transaction_index_changes_an_answer(closed):
    for base_offset, flips in ((7, every_bit), (ACTIVE, a_bit_of_every_byte)):
        for flip, answers, notes in closed.flipped(name_of(base_offset, "txnindex"), flips):
            if notes:
                assert "is rebuilt" in notes[0]
                assert answers == closed.whole, flip
            else:
                check_only_a_bound_differs(answers, closed.whole)


def check_only_a_bound_differs(answers, whole):
    """That no other transaction was open when one was aborted cannot be told from the log."""
    (found, entry), *others = (
        pair for pair in zip(answers.aborted, whole.aborted, strict=True) if pair[0] != pair[1]
    )
    assert others == []
    assert found == entry._replace(last_stable_offset=entry.last_offset + 1)
    assert replace(answers, aborted=whole.aborted) == whole


def test_s4_recovery_writes_transaction_indexes_anew(killed):
    flips = killed.flipped(name_of(ACTIVE, "txnindex"), a_bit_of_every_byte)
    for flip, answers, notes in flips:
        assert (answers, notes) == (killed.whole, []), flip


@pytest.mark.parametrize("base_offset", [ACTIVE, FIRST_OFFSETS[-1]])
def test_s4_a_damaged_snapshot_is_made_up_for(closed, base_offset):
    is_last = base_offset == FIRST_OFFSETS[-1]
    for flip, answers, notes in closed.flipped(
        name_of(base_offset, "snapshot"), a_bit_of_every_byte
    ):
        assert answers == closed.whole, flip
        assert ["snapshot: " in note for note in notes] == [True] * is_last


def test_s4_a_damaged_snapshot_is_made_up_for_by_recovery(killed):
    for flip, answers, notes in killed.flipped(name_of(12, "snapshot"), a_bit_of_every_byte):
        assert answers == killed.whole, flip
        assert ["snapshot: " in note for note in notes] == [True]


# Checkpoints

LINES = re.compile(rb"0\n([1-9]?)\n((?:[\w.-]+ (?:0|[1-9]\d*) (?:0|[1-9]\d*)\n)*)", re.ASCII)


def offset_in(content):
    """Of EVENTS, in a checkpoint: None if there is no line, ValueError if the file is damaged."""
    match = LINES.fullmatch(content)
    lines = match[2].splitlines() if match else []
    if match is None or int(match[1]) != len(lines):
        raise ValueError(content)
    offsets = dict(line.rsplit(b" ", 1) for line in lines)
    if len(offsets) < len(lines):
        raise ValueError(content)
    return int(offsets[b"events 0"]) if b"events 0" in offsets else None


def flipped_checkpoints(scene, checkpoint):
    """What each damaged file says of EVENTS, or None, and what came of it."""
    for flip, answers, notes in scene.flipped(checkpoint.name):
        try:
            offset = offset_in(flip.of(scene.content(checkpoint.name)))
            assert notes == [], flip
        except ValueError:
            offset = None
            assert [f"{checkpoint.name}:" in note for note in notes] == [True], flip
            assert notes[0].endswith("ignoring all offsets of this file")
        yield offset, answers


def test_a_recovery_point_is_only_a_hint_to_a_log_that_was_closed(closed):
    for flip, answers, notes in closed.flipped(RECOVERY_POINTS.name, a_bit_of_every_byte):
        assert answers == closed.whole, flip
        assert all(
            "; ignoring all offsets of this file" in note or "is recovered" in note
            for note in notes
        )


def test_before_a_recovery_point_that_is_too_high_no_epoch_is_found(killed):
    for offset, answers in flipped_checkpoints(killed, RECOVERY_POINTS):
        if offset is None or offset < ACTIVE:
            assert answers == killed.whole
        else:
            epochs = ((0, 1), (3, 5), (5, ACTIVE), (6, 18))
            assert answers == replace(killed.whole, epochs=epochs)


def test_a_damaged_cleaner_checkpoint_makes_logs_dirty(scene):
    for flip, answers, _ in scene.flipped(CLEANER_OFFSETS.name):
        said = flip.of(scene.content(CLEANER_OFFSETS.name))
        match = re.fullmatch(rb"0\n1\norders 0 (0|[1-9])\n", said)
        assert answers == replace(scene.whole, cleaned_to=int(match[1]) if match else None)


def test_a_high_watermark_is_kept_within_the_log(scene):
    whole = scene.whole
    for offset, answers in flipped_checkpoints(scene, HIGH_WATERMARKS):
        expected = min(max(offset or 0, whole.start_offset), whole.end_offset)
        assert answers.high_watermark == expected
        stable = {"last_stable_offset": whole.last_stable_offset}
        assert answers.last_stable_offset <= expected
        assert replace(answers, high_watermark=whole.high_watermark, **stable) == whole


def test_a_start_is_believed_up_to_the_high_watermark(closed):
    whole = closed.whole
    for offset, answers in flipped_checkpoints(closed, LOG_START_OFFSETS):
        start = offset or 0
        assert (answers.start_offset, answers.end_offset) == (start, whole.end_offset)
        assert answers.producers == whole.producers
        for offset in range(max(start, whole.start_offset), whole.end_offset):
            assert answers.batches[offset] == whole.batches[offset]


def test_a_start_beyond_the_log_is_forgotten_and_empties_nothing(scene):
    name = LOG_START_OFFSETS.name
    for start in (b"26", b"91", b"9223372036854775807"):
        answers, notes = scene.with_content(name, b"0\n1\nevents 0 %s\n" % start)
        assert (answers.start_offset, answers.end_offset) == (0, scene.whole.end_offset)
        assert answers.batches.items() >= scene.whole.batches.items()
        assert ["beyond the high watermark" in note for note in notes] == [True]


EPOCHS = re.compile(rb"0\n(\d)\n((?:(?:0|[1-9]\d*) (?:0|[1-9]\d*)\n)*)", re.ASCII)


def epochs_in(content):
    """None if the file is damaged."""
    match = EPOCHS.fullmatch(content)
    lines = match[2].splitlines() if match else []
    entries = [tuple(map(int, line.split())) for line in lines]
    for column in zip(*entries, strict=True):
        if list(column) != sorted(set(column)):
            return None
    return entries if match and int(match[1]) == len(entries) else None


def test_epochs_are_found_in_the_batches_where_the_checkpoint_makes_no_sense(scene):
    name = f"events-0/{leader_epoch_file_cache.FILE_NAME}"
    is_killed = len(epochs_in(scene.content(name))) < len(scene.whole.epochs)
    for flip, answers, notes in scene.flipped(name):
        said = epochs_in(flip.of(scene.content(name)))
        if said is None:
            assert answers == scene.whole, flip
            assert [leader_epoch_file_cache.FILE_NAME in note for note in notes] == [True]
        else:
            assert replace(answers, epochs=scene.whole.epochs) == scene.whole
            if is_killed:
                # What was not synced is learned from the batches.
                assert answers.epochs[-2:] == scene.whole.epochs[-2:]


# Whose it is


def test_a_topic_id_is_another_or_unknown_and_never_changed(scene):
    name = f"events-0/{partition_metadata.FILE_NAME}"
    for flip, answers, notes in scene.flipped(name, a_bit_of_every_byte):
        assert replace(answers, topic_id=TOPIC_ID) == scene.whole
        if notes:
            assert answers.topic_id is None
            assert notes[0].endswith("removing the file")
        elif answers.topic_id != TOPIC_ID:
            assert str(answers.topic_id).encode() in flip.of(scene.content(name))


def test_another_topic_id_is_refused(closed):
    path = closed.path(f"events-0/{partition_metadata.FILE_NAME}")
    path.write_bytes(path.read_bytes().replace(b"kJx2", b"kJy2"))
    manager = opened_scene(closed.root)
    with pytest.raises(InconsistentTopicId):
        manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    manager.close_handlers()


def test_a_directory_that_says_it_is_anothers_is_refused_and_left_alone(closed):
    refused = 0
    for flip in every_bit(closed.content(meta_properties.FILE_NAME)):
        said = flip.of(closed.content(meta_properties.FILE_NAME))
        closed.path(meta_properties.FILE_NAME).write_bytes(said)
        if not names_another_owner(said):
            assert closed.restarted() == (closed.whole, []), said
            continue
        before = KeptFiles(closed.root).contents
        with pytest.raises(InvalidLogDirectory, match=r"meta\.properties: "):
            opened_scene(closed.root)
        assert KeptFiles(closed.root).contents == before
        refused += 1
    assert refused > 200


def names_another_owner(said):
    """A line whose name is damaged says nothing, and is written again."""
    lines = dict(line.partition(b"=")[::2] for line in said.split(b"\n"))
    owner = {b"version": b"0", b"broker.id": b"1", b"cluster.id": CLUSTER_ID.encode()}
    return any(lines.get(name, text) != text for name, text in owner.items())


def test_what_the_marker_says_does_not_matter(closed):
    for flip, answers, notes in closed.flipped(clean_shutdown.FILE_NAME, a_bit_of_every_byte):
        assert (answers, notes) == (closed.whole, []), flip
