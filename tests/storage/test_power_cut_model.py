"""PowerCut loses unsynced changes; replace() and create_directory() are durable on it."""

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
    """The set of directory trees that power cuts after ``change`` leave."""
    trees = set()
    for seed in seeds:
        shutil.rmtree(root)
        root.mkdir()
        before(root)
        with PowerCut(root, seed) as disk:
            change(root)
            disk.cut()
        trees.add(tree(root))
    return trees


def tree(root):
    return frozenset(
        (os.path.relpath(path, root), path.read_bytes() if path.is_file() else None)
        for path in root.rglob("*")
    )


def tree_of(**contents):
    return frozenset(contents.items())


def test_model_has_exactly_the_system_calls(tmp_path):
    calls = {name for name in dir(files.SystemCalls) if not name.startswith("_")}
    own = {"root", "seed", "changes", "story", "settle", "cut"}
    assert {name for name in dir(PowerCut(tmp_path, 0)) if not name.startswith("_")} == calls | own


def test_synced_data_survives_every_cut(tmp_path):
    def change(root):
        write_new(root / "file", CONTENT, synced=True)
        files.sync_directory(root)

    assert outcomes(tmp_path, change) == {tree_of(file=CONTENT)}


def test_existing_files_count_as_synced(tmp_path):
    def before(root):
        (root / "old").write_bytes(CONTENT)

    assert outcomes(tmp_path, lambda _: None, before=before) == {tree_of(old=CONTENT)}


def test_unsynced_write_is_whole_torn_lost_or_zeros(tmp_path):
    def change(root):
        write_new(root / "file", CONTENT, synced=False)
        files.sync_directory(root)

    contents = {dict(tree_left)["file"] for tree_left in outcomes(tmp_path, change)}
    assert {b"", CONTENT} < contents
    assert any(CONTENT.startswith(content) for content in contents - {b"", CONTENT}), (
        "beginning only"
    )
    assert any(
        content.startswith(b"\0") and CONTENT.endswith(content.lstrip(b"\0"))
        for content in contents
    )
    assert any(content and not content.strip(b"\0") for content in contents), "zeros only"
    assert all(len(content) <= len(CONTENT) for content in contents)


def test_only_writes_after_the_last_sync_may_be_lost(tmp_path):
    def change(root):
        descriptor = files.open_for_writing(root / "file")
        files.write_at(descriptor, [CONTENT], 0)
        files.sync(descriptor)
        files.write_at(descriptor, [b"a"], 200)
        files.write_at(descriptor, [b"b"], 201)
        files.system.close(descriptor)
        files.sync_directory(root)

    contents = {dict(tree_left)["file"] for tree_left in outcomes(tmp_path, change)}
    tails = {content[len(CONTENT) :] for content in contents if content.startswith(CONTENT)}
    assert len(tails) == len(contents)
    assert tails >= {b"", b"a", b"ab", b"\0b"}


def test_overwritten_and_truncated_bytes_may_be_old_or_new(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"0123456789")

    def change(root):
        files.truncate(root / "file", 8)
        descriptor = files.open_for_writing(root / "file")
        files.write_at(descriptor, [b"ABCD"], 2)
        files.system.close(descriptor)

    contents = {dict(tree_left)["file"] for tree_left in outcomes(tmp_path, change, before=before)}
    assert contents > {b"0123456789", b"01234567", b"01ABCD67", b"01ABCD6789"}
    assert all(content[:2] == b"01" and content[6:8] == b"67" for content in contents)


def test_unsynced_allocation_may_be_lost(tmp_path):
    def change(root):
        descriptor = files.open_for_writing(root / "file")
        files.system.fallocate(descriptor, 0, 1000)
        files.system.fallocate(descriptor, 0, 500)
        files.system.close(descriptor)
        files.sync_directory(root)

    contents = {dict(tree_left)["file"] for tree_left in outcomes(tmp_path, change)}
    assert {b"", bytes(1000)} <= contents


def test_mapped_sectors_are_kept_or_lost_independently(tmp_path):
    def before(root):
        (root / "index").write_bytes(bytes(4096))

    def change(root):
        descriptor = files.open_for_writing(root / "index")
        mapped = mmap.mmap(descriptor, 4096)
        mapped[100:104] = b"lost"
        mapped[2000:2004] = b"kept"
        mapped.close()
        files.system.close(descriptor)

    contents = {dict(tree_left)["index"] for tree_left in outcomes(tmp_path, change, before=before)}
    assert {content.replace(b"\0", b"") for content in contents} == {
        b"",
        b"lost",
        b"kept",
        b"lostkept",
    }


def test_sync_by_path_keeps_mapped_writes(tmp_path):
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


def test_unsynced_name_may_be_lost_though_its_file_was_synced(tmp_path):
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


def test_rename_of_an_unsynced_file_may_leave_it_empty(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"old")

    def change(root):
        write_new(root / "file.tmp", b"new", synced=False)
        files.rename_durably(root / "file.tmp", root / "file")

    trees = outcomes(tmp_path, change, before=before)
    assert {tree_of(file=b""), tree_of(file=b"new")} < trees
    assert all(set(dict(tree_left)) == {"file"} for tree_left in trees)


def test_removed_file_may_come_back_with_its_content(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"1")

    def change(root):
        files.remove(root / "file")

    assert outcomes(tmp_path, change, before=before) == {tree_of(), tree_of(file=b"1")}


def test_removed_file_stays_removed_once_its_directory_is_synced(tmp_path):
    def before(root):
        (root / "file").write_bytes(b"1")

    def change(root):
        files.remove_durably(root / "file")

    assert outcomes(tmp_path, change, before=before) == {tree_of()}


def test_unsynced_name_changes_survive_independently(tmp_path):
    def before(root):
        (root / "a").write_bytes(b"1")

    def change(root):
        files.remove(root / "a")
        files.system.mkdir(root / "b")

    expected = {
        frozenset(names) for names in ([("a", b"1")], [], [("a", b"1"), ("b", None)], [("b", None)])
    }
    assert outcomes(tmp_path, change, before=before) == expected


def test_renamed_directory_keeps_its_content(tmp_path):
    def change(root):
        files.create_directory(root / "t-0")
        write_new(root / "t-0" / "file", b"1", synced=True)
        files.sync_directory(root / "t-0")
        files.rename(root / "t-0", root / "t-0.x-delete")

    expected = {
        frozenset({(name, None), (f"{name}/file", b"1")}) for name in ("t-0", "t-0.x-delete")
    }
    assert outcomes(tmp_path, change) == expected


def test_removed_directory_may_come_back_with_some_of_its_content(tmp_path):
    def before(root):
        (root / "t-0").mkdir()
        (root / "t-0" / "a").write_bytes(b"1")
        (root / "t-0" / "b").write_bytes(b"2")

    def change(root):
        files.remove_directory(root / "t-0")

    trees = outcomes(tmp_path, change, before=before)
    assert tree_of() in trees
    assert frozenset({("t-0", None), ("t-0/a", b"1"), ("t-0/b", b"2")}) in trees
    assert frozenset({("t-0", None)}) in trees


def test_seed_reproduces_the_cut_and_is_reported(tmp_path):
    def change(root):
        for name in "abc":
            write_new(root / name, CONTENT, synced=False)

    assert len(outcomes(tmp_path, change)) > 10
    assert len(outcomes(tmp_path, change, seeds=[7] * 5)) == 1
    with PowerCut(tmp_path, 7) as disk:
        change(tmp_path)
        disk.cut()
    assert str(disk).startswith("PowerCut(seed=7, off_at=None)\na cut that keeps")


def test_power_can_be_cut_repeatedly(tmp_path):
    contents = set()
    for seed in SEEDS:
        with PowerCut(tmp_path, seed) as disk:
            files.replace(tmp_path / "file", b"1")
            disk.cut()
            assert files.read(tmp_path / "file") == b"1"
            write_new(tmp_path / "file", b"2", synced=False)
            disk.cut()
        contents.add((tmp_path / "file").read_bytes())
    assert contents == {b"1", b"2"}


def test_power_goes_off_at_the_requested_change(tmp_path):
    with PowerCut(tmp_path, 0, off_at=3) as disk:
        with pytest.raises(PowerIsOff):
            files.replace(tmp_path / "file", b"1")
        with pytest.raises(PowerIsOff):
            files.remove_durably(tmp_path / "file.tmp")
        assert disk.changes == 4
        disk.cut()
        files.replace(tmp_path / "file", b"1")
    assert (tmp_path / "file").read_bytes() == b"1"


def test_descriptor_from_before_a_cut_can_only_be_closed(tmp_path):
    with PowerCut(tmp_path, 0) as disk:
        descriptor = files.open_for_writing(tmp_path / "file")
        disk.cut()
        with pytest.raises(AssertionError, match="opened before the power cut"):
            files.write_at(descriptor, [b"late"], 0)
        files.system.close(descriptor)


def test_open_descriptors_can_be_closed_after_the_model_ends(tmp_path):
    with PowerCut(tmp_path, 0) as disk:
        first_descriptor = files.open_for_writing(tmp_path / "before")
        disk.cut()
        second_descriptor = files.open_for_writing(tmp_path / "after")
    files.system.close(first_descriptor)
    files.system.close(second_descriptor)


def test_change_that_bypasses_the_model_is_detected(tmp_path):
    with PowerCut(tmp_path, 0) as disk:
        (tmp_path / "unseen").touch()
        with pytest.raises(AssertionError, match="unseen"):
            files.open_for_writing(tmp_path / "unseen")
        with pytest.raises(AssertionError, match="unseen"):
            disk.cut()


def test_settle_makes_files_created_by_the_test_durable(tmp_path):
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
def test_missing_files_raise_as_on_a_real_disk(tmp_path, call):
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
def test_replace_leaves_the_old_or_the_new_content_after_any_power_cut(tmp_path, seed):
    steps = changes_of_replace(tmp_path)
    assert steps == 5  # create, write, sync, rename, sync the directory
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
def test_created_directory_is_durable_when_the_call_returns(tmp_path, seed):
    with PowerCut(tmp_path, seed) as disk:
        files.create_directory(tmp_path / "t-0")
        disk.cut()
    assert (tmp_path / "t-0").is_dir(), disk
