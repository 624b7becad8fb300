"""The life cycle of a disk task: begin, run, completion, failure."""

import errno
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.disk_task import DiskTask, execute
from odradek.storage.open_segments import TooManyOpenFiles


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path, on_failure=lambda directory: None)


class RecordedTask:
    """A disk task and the events that happened to it."""

    def __init__(self, directory, *, error=None, is_exclusive=False):
        self.events = []
        self.is_obsolete = False
        self._failure = error
        self.task = DiskTask(
            directory,
            "telling a story",
            self._begin,
            on_complete=self.events.append,
            is_obsolete=lambda: self.is_obsolete,
            is_exclusive=is_exclusive,
        )

    def _begin(self):
        self.events.append("begun")
        return self.run

    def run(self):
        self.events.append("run")
        if self._failure is not None:
            raise self._failure


def test_task_begins_runs_and_completes(directory):
    recorded = RecordedTask(directory)
    execute(recorded.task)
    assert recorded.events == ["begun", "run", True]


def test_failed_task_takes_its_directory_offline_and_does_not_complete(directory):
    recorded = RecordedTask(directory, error=OSError(errno.EIO, "broken"))
    with pytest.raises(LogDirectoryOffline, match="telling a story failed"):
        execute(recorded.task)
    assert recorded.events == ["begun", "run"]
    assert not directory.is_online


def test_task_that_cannot_begin_takes_its_directory_offline(directory):
    def begin():
        raise OSError(errno.EIO, "broken")

    with pytest.raises(LogDirectoryOffline):
        execute(DiskTask(directory, "opening", begin))
    assert not directory.is_online


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_task_without_descriptors_fails_and_its_directory_stays_online(directory, error):
    recorded = RecordedTask(directory, error=OSError(error, "too many files"), is_exclusive=True)
    with pytest.raises(TooManyOpenFiles, match="telling a story failed"):
        execute(recorded.task)
    assert recorded.events == ["begun", "run", False]
    assert directory.is_online
    execute(RecordedTask(directory, is_exclusive=True).task)


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "too many"), TooManyOpenFiles("many")])
def test_task_that_begins_without_descriptors_fails_and_stays_online(directory, error):
    def begin():
        raise error

    completions = []
    with pytest.raises(TooManyOpenFiles):
        execute(DiskTask(directory, "opening", begin, on_complete=completions.append))
    assert completions == [False]
    assert directory.is_online


def test_task_in_an_offline_directory_does_not_begin(directory):
    directory.mark_offline(OSError(errno.EIO, "broken"), "something else")
    recorded = RecordedTask(directory)
    with pytest.raises(LogDirectoryOffline, match="something else failed"):
        execute(recorded.task)
    assert recorded.events == []


def test_task_that_is_obsolete_before_it_begins_does_not_run(directory):
    recorded = RecordedTask(directory)
    recorded.is_obsolete = True
    execute(recorded.task)
    assert recorded.events == [False]


def test_failure_of_an_obsolete_task_is_ignored(directory):
    recorded = RecordedTask(directory, error=FileNotFoundError(errno.ENOENT, "it has been deleted"))
    with recorded.task:
        recorded.is_obsolete = True
        recorded.task.run()
    assert recorded.events == ["begun", "run", False]
    assert directory.is_online


def test_task_that_is_obsolete_after_it_ran_does_not_complete(directory):
    recorded = RecordedTask(directory)
    with recorded.task:
        recorded.task.run()
        recorded.is_obsolete = True
    assert recorded.events == ["begun", "run", False]


def test_bug_does_not_take_the_directory_offline(directory):
    recorded = RecordedTask(directory, error=AssertionError("a bug"))
    with pytest.raises(AssertionError, match="a bug"):
        execute(recorded.task)
    assert recorded.events == ["begun", "run", False]
    assert directory.is_online


def test_obsolete_exclusive_task_does_not_release_another_one(directory):
    recorded = RecordedTask(directory, is_exclusive=True)
    recorded.is_obsolete = True
    with RecordedTask(directory, is_exclusive=True).task:
        execute(recorded.task)
        assert directory.has_exclusive_task
    assert not directory.has_exclusive_task


def test_directory_has_one_exclusive_task_at_a_time(directory):
    first = RecordedTask(directory, is_exclusive=True).task
    second = RecordedTask(directory, is_exclusive=True).task
    with first:
        with pytest.raises(AssertionError, match="beside another exclusive task"):
            execute(second)
        execute(RecordedTask(directory).task)
    execute(second)


def test_failed_exclusive_task_does_not_block_other_directories(directory, tmp_path):
    broken = RecordedTask(directory, error=OSError(errno.EIO, "broken"), is_exclusive=True)
    with pytest.raises(LogDirectoryOffline):
        execute(broken.task)
    other = LogDirectory(tmp_path, on_failure=lambda directory: None)
    execute(RecordedTask(other, is_exclusive=True).task)


def exit_while_it_runs(recorded):
    """Exit the task while it runs, as a cancelled caller that does not wait for its thread."""
    begun, can_end = Event(), Event()

    def run():
        begun.set()
        assert can_end.wait(timeout=10)

    recorded.run = run
    with ThreadPoolExecutor(1) as threads:
        try:
            with recorded.task:
                threads.submit(recorded.task.run)
                assert begun.wait(timeout=10)
                raise KeyboardInterrupt
        finally:
            can_end.set()


class TestEarlyExit:
    def test_running_task_still_blocks_exclusive_tasks(self, directory):
        with pytest.raises(AssertionError, match="was exited while it was running"):
            exit_while_it_runs(RecordedTask(directory, is_exclusive=True))
        with pytest.raises(AssertionError, match="beside another exclusive task"):
            execute(RecordedTask(directory, is_exclusive=True).task)

    def test_running_task_does_not_complete(self, directory):
        recorded = RecordedTask(directory)
        with pytest.raises(AssertionError, match="was exited while it was running"):
            exit_while_it_runs(recorded)
        assert recorded.events == ["begun"]

    def test_exit_before_the_task_runs_prevents_it_from_running(self, directory):
        recorded = RecordedTask(directory, is_exclusive=True)
        with pytest.raises(KeyboardInterrupt), recorded.task:
            raise KeyboardInterrupt
        recorded.task.run()
        assert recorded.events == ["begun", False]
        execute(RecordedTask(directory, is_exclusive=True).task)
