"""The disk model that forgets what was not synced, and what our own writes look like on it."""

import mmap
import os
import shutil

import pytest

from odradek.storage import files
from tests.support.power_cut import PowerCut, PowerIsOff

SEEDS = range(100)
CONTENT = bytes(range(1, 201))


def write_new(path, content, *, synced):
    descriptor = files.open_for_writing(path)
    files.write_at(descriptor, [content], 0)
    if synced:
        files.sync(descriptor)
    files.system.close(descriptor)


def outcomes(root, change, *, before=lambda _: None, seeds=SEEDS):
    """The trees that cuts after ``change`` leave, as a set of what maps names to contents."""
    found = set()
    for seed in seeds:
        shutil.rmtree(root)
        root.mkdir()
        before(root)
        with PowerCut(root, seed) as disk:
            change(root)
            disk.cut()
        found.add(tree(root))
    return found


def tree(root):
    return frozenset(
        (os.path.relpath(path, root), path.read_bytes() if path.is_file() else None)
        for path in root.rglob("*")
    )


def tree_of(**contents):
    return frozenset(contents.items())


def test_it_has_every_call_of_the_system_and_no_other(tmp_path):
    calls = {name for name in dir(files.System) if not name.startswith("_")}
    own = {"root", "seed", "changes", "story", "settle", "cut"}
    assert {name for name in dir(PowerCut(tmp_path, 0)) if not name.startswith("_")} == calls | own


def test_what_was_synced_is_there_after_every_cut(tmp_path):
    def change(root):
        write_new(root / "file", CONTENT, synced=True)
        files.sync_directory(root)

    assert outcomes(tmp_path, change) == {tree_of(file=CONTENT)}


def test_what_was_there_before_counts_as_synced(tmp_path):
    def before(root):
        (root / "old").write_bytes(CONTENT)

    assert outcomes(tmp_path, lambda _: None, before=before) == {tree_of(old=CONTENT)}


def test_a_write_that_was_not_synced_is_whole_torn_lost_or_zeros(tmp_path):
    def change(root):
        write_new(root / "file", CONTENT, synced=False)
        files.sync_directory(root)

    contents = {dict(found)["file"] for found in outcomes(tmp_path, change)}
    assert {b"", CONTENT} < contents
    assert any(CONTENT.startswith(each) for each in contents - {b"", CONTENT}), "beginning only"
    assert any(each.startswith(b"\0") and CONTENT.endswith(each.lstrip(b"\0")) for each in contents)
    assert any(each and not each.strip(b"\0") for each in contents), "zeros only"
    assert all(len(each) <= len(CONTENT) for each in contents)


def test_only_what_follows_the_last_sync_is_at_risk(tmp_path):
    def change(root):
        descriptor = files.open_for_writing(root / "file")
        files.write_at(descriptor, [CONTENT], 0)
        files.sync(descriptor)
        files.write_at(descriptor, [b"a"], 200)
        files.write_at(descriptor, [b"b"], 201)
        files.system.close(descriptor)
        files.sync_directory(root)

    contents = {dict(found)["file"] for found in outcomes(tmp_path, change)}
    tails = {each[len(CONTENT) :] for each in contents if each.startswith(CONTENT)}
    assert len(tails) == len(contents)
    assert tails >= {b"", b"a", b"ab", b"\0b"}


def test_overwritten_and_cut_bytes_may_be_old_or_new(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"0123456789")

    def change(root):
        files.truncate(root / "file", 8)
        descriptor = files.open_for_writing(root / "file")
        files.write_at(descriptor, [b"ABCD"], 2)
        files.system.close(descriptor)

    contents = {dict(found)["file"] for found in outcomes(tmp_path, change, before=before)}
    assert contents > {b"0123456789", b"01234567", b"01ABCD67", b"01ABCD6789"}
    assert all(each[:2] == b"01" and each[6:8] == b"67" for each in contents)


def test_room_that_was_made_may_be_gone(tmp_path):
    def change(root):
        descriptor = files.open_for_writing(root / "file")
        files.system.fallocate(descriptor, 0, 1000)
        files.system.fallocate(descriptor, 0, 500)
        files.system.close(descriptor)
        files.sync_directory(root)

    contents = {dict(found)["file"] for found in outcomes(tmp_path, change)}
    assert {b"", bytes(1000)} <= contents


def test_sectors_written_through_a_map_are_there_or_not(tmp_path):
    def before(root):
        (root / "index").write_bytes(bytes(4096))

    def change(root):
        descriptor = files.open_for_writing(root / "index")
        mapped = mmap.mmap(descriptor, 4096)
        mapped[100:104] = b"lost"
        mapped[2000:2004] = b"kept"
        mapped.close()
        files.system.close(descriptor)

    contents = {dict(found)["index"] for found in outcomes(tmp_path, change, before=before)}
    assert {each.replace(b"\0", b"") for each in contents} == {b"", b"lost", b"kept", b"lostkept"}


def test_a_sync_by_path_keeps_what_was_written_through_a_map(tmp_path):
    def before(root):
        (root / "index").write_bytes(bytes(100))

    def change(root):
        descriptor = files.open_for_writing(root / "index")
        mapped = mmap.mmap(descriptor, 100)
        mapped[:4] = b"kept"
        files.system.close(descriptor)
        files.sync_path(root / "index")
        mapped.close()

    assert outcomes(tmp_path, change, before=before) == {tree_of(index=b"kept" + bytes(96))}


def test_a_name_that_was_not_synced_may_be_gone_though_its_file_was_synced(tmp_path):
    def change(root):
        write_new(root / "file", CONTENT, synced=True)

    assert outcomes(tmp_path, change) == {tree_of(), tree_of(file=CONTENT)}


def test_a_rename_is_done_or_undone(tmp_path):
    def before(root):
        (root / "old").write_bytes(b"1")
        (root / "new").write_bytes(b"2")

    def change(root):
        files.rename(root / "old", root / "new")

    expected = {tree_of(old=b"1", new=b"2"), tree_of(new=b"1")}
    assert outcomes(tmp_path, change, before=before) == expected


def test_a_rename_without_a_sync_of_the_file_may_leave_it_empty(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"old")

    def change(root):
        write_new(root / "file.tmp", b"new", synced=False)
        files.rename_durably(root / "file.tmp", root / "file")

    found = outcomes(tmp_path, change, before=before)
    assert {tree_of(file=b""), tree_of(file=b"new")} < found
    assert all(set(dict(each)) == {"file"} for each in found)


def test_a_removed_file_may_be_back_with_all_it_held(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"1")

    def change(root):
        files.remove(root / "file")

    assert outcomes(tmp_path, change, before=before) == {tree_of(), tree_of(file=b"1")}


def test_a_removed_file_stays_away_once_its_directory_is_synced(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"1")

    def change(root):
        files.remove_durably(root / "file")

    assert outcomes(tmp_path, change, before=before) == {tree_of()}


def test_names_come_and_go_in_any_selection(tmp_path):
    def before(root):
        (root / "a").write_bytes(b"1")

    def change(root):
        files.remove(root / "a")
        files.system.mkdir(root / "b")

    expected = {
        frozenset(names) for names in ([("a", b"1")], [], [("a", b"1"), ("b", None)], [("b", None)])
    }
    assert outcomes(tmp_path, change, before=before) == expected


def test_a_directory_moves_with_all_that_is_in_it(tmp_path):
    def change(root):
        files.create_directory(root / "t-0")
        write_new(root / "t-0" / "file", b"1", synced=True)
        files.sync_directory(root / "t-0")
        files.rename(root / "t-0", root / "t-0.x-delete")

    expected = {
        frozenset({(name, None), (f"{name}/file", b"1")}) for name in ("t-0", "t-0.x-delete")
    }
    assert outcomes(tmp_path, change) == expected


def test_a_removed_directory_may_be_back_with_some_of_what_was_in_it(tmp_path):
    def before(root):
        (root / "t-0").mkdir()
        (root / "t-0" / "a").write_bytes(b"1")
        (root / "t-0" / "b").write_bytes(b"2")

    def change(root):
        files.remove_directory(root / "t-0")

    found = outcomes(tmp_path, change, before=before)
    assert tree_of() in found
    assert frozenset({("t-0", None), ("t-0/a", b"1"), ("t-0/b", b"2")}) in found
    assert frozenset({("t-0", None)}) in found


def test_a_seed_repeats_its_cut_and_tells_it(tmp_path):
    def change(root):
        for name in "abc":
            write_new(root / name, CONTENT, synced=False)

    assert len(outcomes(tmp_path, change)) > 10
    assert len(outcomes(tmp_path, change, seeds=[7] * 5)) == 1
    with PowerCut(tmp_path, 7) as disk:
        change(tmp_path)
        disk.cut()
    assert str(disk).startswith("PowerCut(seed=7, off_at=None)\na cut that keeps")


def test_recovery_can_be_cut_as_well(tmp_path):
    found = set()
    for seed in SEEDS:
        with PowerCut(tmp_path, seed) as disk:
            files.replace(tmp_path / "file", b"1")
            disk.cut()
            assert files.read(tmp_path / "file") == b"1"
            write_new(tmp_path / "file", b"2", synced=False)
            disk.cut()
        found.add((tmp_path / "file").read_bytes())
    assert found == {b"1", b"2"}


def test_the_power_goes_at_the_change_that_was_asked_for(tmp_path):
    with PowerCut(tmp_path, 0, off_at=3) as disk:
        with pytest.raises(PowerIsOff):
            files.replace(tmp_path / "file", b"1")
        with pytest.raises(PowerIsOff):
            files.remove_durably(tmp_path / "file.tmp")
        assert disk.changes == 4
        disk.cut()
        files.replace(tmp_path / "file", b"1")
    assert (tmp_path / "file").read_bytes() == b"1"


def test_what_was_open_before_a_cut_can_only_be_closed(tmp_path):
    with PowerCut(tmp_path, 0) as disk:
        descriptor = files.open_for_writing(tmp_path / "file")
        disk.cut()
        with pytest.raises(AssertionError, match="opened before the power cut"):
            files.write_at(descriptor, [b"late"], 0)
        files.system.close(descriptor)


def test_what_is_left_open_can_be_closed_after_the_end(tmp_path):
    with PowerCut(tmp_path, 0) as disk:
        left = files.open_for_writing(tmp_path / "before")
        disk.cut()
        left_too = files.open_for_writing(tmp_path / "after")
    files.system.close(left)
    files.system.close(left_too)


def test_a_change_past_the_system_is_found(tmp_path):
    with PowerCut(tmp_path, 0) as disk:
        (tmp_path / "unseen").touch()
        with pytest.raises(AssertionError, match="unseen"):
            files.open_for_writing(tmp_path / "unseen")
        with pytest.raises(AssertionError, match="unseen"):
            disk.cut()


def test_what_a_test_makes_itself_can_be_settled(tmp_path):
    with PowerCut(tmp_path, 0) as disk:
        (tmp_path / "made").write_bytes(b"1")
        disk.settle()
        disk.cut()
    assert (tmp_path / "made").read_bytes() == b"1"


@pytest.mark.parametrize(
    "call",
    [
        lambda root: files.truncate(root / "none", 0),
        lambda root: files.rename_durably(root / "none", root / "other"),
        lambda root: files.open_for_writing(root / "none" / "file"),
        lambda root: files.remove_directory(root / "none"),
    ],
)
def test_what_is_not_there_is_missed_as_on_a_real_disk(tmp_path, call):
    for _ in ("real", "model"):
        with pytest.raises(FileNotFoundError):
            call(tmp_path)
        with PowerCut(tmp_path, 0), pytest.raises(FileNotFoundError):
            call(tmp_path)


def changes_of_replace(root):
    with PowerCut(root, 0) as disk:
        files.replace(root / "file", b"old content")
    return disk.changes


@pytest.mark.parametrize("seed", range(30))
def test_replace_leaves_the_old_or_the_new_content_whenever_the_power_goes(tmp_path, seed):
    steps = changes_of_replace(tmp_path)
    assert steps == 5  # made, written, synced, renamed, directory synced
    for off_at in range(1, steps + 1):
        files.replace(tmp_path / "file", b"old content")
        with PowerCut(tmp_path, seed, off_at=off_at) as disk:
            with pytest.raises(PowerIsOff):
                files.replace(tmp_path / "file", b"new content, longer")
            disk.cut()
        assert files.read(tmp_path / "file") in (b"old content", b"new content, longer"), disk


@pytest.mark.parametrize("seed", range(30))
def test_replace_is_durable_when_it_returns(tmp_path, seed):
    (tmp_path / "file").write_bytes(b"old")
    with PowerCut(tmp_path, seed) as disk:
        files.replace(tmp_path / "file", b"new")
        disk.cut()
    assert tree(tmp_path) == tree_of(file=b"new"), disk


@pytest.mark.parametrize("seed", range(30))
def test_a_created_directory_is_durable_when_it_is_there(tmp_path, seed):
    with PowerCut(tmp_path, seed) as disk:
        files.create_directory(tmp_path / "t-0")
        disk.cut()
    assert (tmp_path / "t-0").is_dir(), disk
