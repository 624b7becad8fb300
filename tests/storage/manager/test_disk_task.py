"""Work for the disk, before, while and after it runs."""

import errno
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.disk_work import DiskWork, carry_out
from odradek.storage.open_segments import OutOfDescriptors


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path, on_failure=lambda directory: None)


class Story:
    """What happened to a piece of work."""

    def __init__(self, directory, *, failure=None, is_exclusive=False):
        self.events = []
        self.is_pointless = False
        self._failure = failure
        self.work = DiskWork(
            directory,
            "telling a story",
            self._begin,
            ended=self.events.append,
            is_pointless=lambda: self.is_pointless,
            is_exclusive=is_exclusive,
        )

    def _begin(self):
        self.events.append("begun")
        return self.run

    def run(self):
        self.events.append("run")
        if self._failure is not None:
            raise self._failure


def test_work_begins_runs_and_is_done(directory):
    story = Story(directory)
    carry_out(story.work)
    assert story.events == ["begun", "run", True]


def test_work_that_fails_takes_its_directory_offline_and_is_not_done(directory):
    story = Story(directory, failure=OSError(errno.EIO, "broken"))
    with pytest.raises(LogDirectoryOffline, match="telling a story failed"):
        carry_out(story.work)
    assert story.events == ["begun", "run"]
    assert not directory.is_online


def test_work_that_cannot_begin_takes_its_directory_offline(directory):
    def begin():
        raise OSError(errno.EIO, "broken")

    with pytest.raises(LogDirectoryOffline):
        carry_out(DiskWork(directory, "opening", begin))
    assert not directory.is_online


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_work_that_wants_for_descriptors_is_broken_off_and_its_directory_stays_online(
    directory, error
):
    story = Story(directory, failure=OSError(error, "too many files"), is_exclusive=True)
    with pytest.raises(OutOfDescriptors, match="telling a story failed"):
        carry_out(story.work)
    assert story.events == ["begun", "run", False]
    assert directory.is_online
    carry_out(Story(directory, is_exclusive=True).work)


@pytest.mark.parametrize("refusal", [OSError(errno.EMFILE, "too many"), OutOfDescriptors("many")])
def test_so_is_work_that_wants_for_them_when_it_begins(directory, refusal):
    def begin():
        raise refusal

    told = []
    with pytest.raises(OutOfDescriptors):
        carry_out(DiskWork(directory, "opening", begin, ended=told.append))
    assert told == [False]
    assert directory.is_online


def test_work_in_an_offline_directory_does_not_begin(directory):
    directory.fail(OSError(errno.EIO, "broken"), "something else")
    story = Story(directory)
    with pytest.raises(LogDirectoryOffline, match="something else failed"):
        carry_out(story.work)
    assert story.events == []


def test_work_that_became_pointless_before_it_began_is_not_run(directory):
    story = Story(directory)
    story.is_pointless = True
    carry_out(story.work)
    assert story.events == [False]


def test_the_failure_of_work_that_became_pointless_means_nothing(directory):
    story = Story(directory, failure=FileNotFoundError(errno.ENOENT, "it has been deleted"))
    with story.work:
        story.is_pointless = True
        story.work.run()
    assert story.events == ["begun", "run", False]
    assert directory.is_online


def test_work_that_was_pointless_by_the_time_it_was_run_is_not_done(directory):
    story = Story(directory)
    with story.work:
        story.work.run()
        story.is_pointless = True
    assert story.events == ["begun", "run", False]


def test_a_bug_is_not_the_disks_failure(directory):
    story = Story(directory, failure=AssertionError("a bug"))
    with pytest.raises(AssertionError, match="a bug"):
        carry_out(story.work)
    assert story.events == ["begun", "run", False]
    assert directory.is_online


def test_exclusive_work_that_was_pointless_leaves_the_directory_to_others(directory):
    story = Story(directory, is_exclusive=True)
    story.is_pointless = True
    with Story(directory, is_exclusive=True).work:
        carry_out(story.work)
        assert directory.is_busy
    assert not directory.is_busy


def test_exclusive_work_is_the_only_one_of_its_directory(directory):
    first = Story(directory, is_exclusive=True).work
    second = Story(directory, is_exclusive=True).work
    with first:
        with pytest.raises(AssertionError, match="beside other work"):
            carry_out(second)
        carry_out(Story(directory).work)
    carry_out(second)


def test_failed_exclusive_work_does_not_stand_in_the_way_of_other_directories(directory, tmp_path):
    broken = Story(directory, failure=OSError(errno.EIO, "broken"), is_exclusive=True)
    with pytest.raises(LogDirectoryOffline):
        carry_out(broken.work)
    other = LogDirectory(tmp_path, on_failure=lambda directory: None)
    carry_out(Story(other, is_exclusive=True).work)


def leave_while_it_runs(story):
    """As a caller that is cancelled, and does not wait for its thread."""
    begun, may_end = Event(), Event()

    def run():
        begun.set()
        assert may_end.wait(timeout=10)

    story.run = run
    with ThreadPoolExecutor(1) as threads:
        try:
            with story.work:
                threads.submit(story.work.run)
                assert begun.wait(timeout=10)
                raise KeyboardInterrupt
        finally:
            may_end.set()


class TestWhoLeavesTooEarly:
    def test_lets_no_other_exclusive_work_begin(self, directory):
        with pytest.raises(AssertionError, match="left before it had been run"):
            leave_while_it_runs(Story(directory, is_exclusive=True))
        with pytest.raises(AssertionError, match="beside other work"):
            carry_out(Story(directory, is_exclusive=True).work)

    def test_is_not_told_that_it_has_ended(self, directory):
        story = Story(directory)
        with pytest.raises(AssertionError, match="left before it had been run"):
            leave_while_it_runs(story)
        assert story.events == ["begun"]

    def test_may_leave_before_it_has_been_begun_and_then_it_never_is(self, directory):
        story = Story(directory, is_exclusive=True)
        with pytest.raises(KeyboardInterrupt), story.work:
            raise KeyboardInterrupt
        story.work.run()
        assert story.events == ["begun", False]
        carry_out(Story(directory, is_exclusive=True).work)
