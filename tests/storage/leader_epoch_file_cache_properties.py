"""The leader epoch cache agrees with a model log that is a plain list of epochs."""

import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.storage.leader_epoch_file_cache import (
    UNDEFINED_EPOCH_END,
    EpochEnd,
    LeaderEpochFileCache,
)
from tests.support.power_cut import PowerCut

offsets = st.integers(0, 60)


class LeaderEpochsAgainstALog(RuleBasedStateMachine):
    """``log`` holds the epoch of every record; ``start`` is the offset of the first record.

    A power cut loses unflushed data; recovery scans the records from the recovery point on.
    """

    def __init__(self):
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.disk = PowerCut(Path(self._directory.name), seed=0).__enter__()
        self.epochs = LeaderEpochFileCache(self.disk.root)
        self.start = 0
        self.log = []
        self.recovery_point = 0

    def teardown(self):
        self.disk.__exit__(None, None, None)
        self._directory.cleanup()

    @property
    def end(self):
        return self.start + len(self.log)

    @rule(newer=st.integers(0, 3), count=st.integers(1, 8))
    def append(self, newer, count):
        epoch = max(self.epochs.latest_epoch, 0) + newer
        self.epochs.assign(epoch, start_offset=self.end)
        self.log += [epoch] * count

    @rule(offset=offsets)
    def truncate_end(self, offset):
        new_end = min(max(offset, self.start), self.end)
        del self.log[new_end - self.start :]
        self.recovery_point = min(self.recovery_point, new_end)
        self.epochs.truncate_from_end(new_end)

    @rule(offset=offsets)
    def truncate_start(self, offset):
        new_start = min(max(offset, self.start), self.end)
        del self.log[: new_start - self.start]
        self.start = new_start
        self.recovery_point = max(self.recovery_point, new_start)
        self.epochs.truncate_from_start(new_start)

    @rule(offset=offsets)
    def truncate_fully(self, offset):
        self.log, self.start, self.recovery_point = [], offset, offset
        self.epochs.clear()

    @rule()
    def flush(self):
        self.epochs.flush()
        self.recovery_point = self.end
        assert self.epochs.is_flushed

    @rule()
    def crash_and_recover(self):
        expected = self.epochs.entries
        self.disk.cut()
        self.epochs = LeaderEpochFileCache.load(self.epochs.directory)
        self.epochs.truncate_from_start(self.start)
        self.epochs.truncate_from_end(self.recovery_point)
        for offset in range(self.recovery_point, self.end):
            epoch = self.log[offset - self.start]
            if epoch > self.epochs.latest_epoch:
                self.epochs.assign(epoch, start_offset=offset)
        self.epochs.truncate_from_end(self.end)
        assert self.epochs.entries == tuple(e for e in expected if e.start_offset < self.end)

    @invariant()
    def entries_ascend(self):
        entries = self.epochs.entries
        assert list(entries) == sorted(entries)
        assert len({entry.epoch for entry in entries}) == len(entries)
        assert len({entry.start_offset for entry in entries}) == len(entries)

    @invariant()
    def every_offset_has_its_epoch(self):
        for offset, epoch in enumerate(self.log, start=self.start):
            assert self.epochs.epoch_for_offset(offset) == epoch

    @invariant()
    def every_epoch_has_its_end_offset(self):
        known = sorted(set(self.log))
        if not known or known[-1] != self.epochs.latest_epoch:
            return  # the latest epoch has no record yet, or its records were truncated
        for epoch_queried in range(-1, known[-1] + 3):
            epoch_end = self.epochs.end_offset_for(epoch_queried, log_end_offset=self.end)
            assert epoch_end == self.expected_end(epoch_queried, known)

    def expected_end(self, epoch_queried, known):
        if epoch_queried < 0 or epoch_queried > known[-1]:
            return UNDEFINED_EPOCH_END
        later = [
            offset
            for offset, epoch in enumerate(self.log, start=self.start)
            if epoch > epoch_queried
        ]
        end = later[0] if later else self.end
        return EpochEnd(
            max((epoch for epoch in known if epoch <= epoch_queried), default=epoch_queried), end
        )


TestLeaderEpochs = LeaderEpochsAgainstALog.TestCase
