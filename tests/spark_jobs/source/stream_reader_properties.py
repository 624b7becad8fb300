"""A stream reads committed records once and in order.

This holds for any log, any high watermarks, any batch limit, and any number of restarts that repeat
the last batch.
"""

import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from odradek.spark_jobs.source.data_source import OdradekSource
from tests.support.laid_transactions import History
from tests.support.scans import LogDirectory, rows_of

PRODUCERS = (1, 2, 3)
#: A producer appends (None: outside a transaction), or ends its transaction.
STEPS = st.one_of(
    st.sampled_from((None, *PRODUCERS)),
    st.tuples(st.sampled_from(PRODUCERS), st.booleans()),
)


def build_history(steps):
    """Return a history and the outcome of each record: committed, aborted, or None while open."""
    history, outcomes, started = History(), {}, {}
    for step in steps:
        if not isinstance(step, tuple):
            outcomes[len(history.batches)] = True if step is None else None
            if step is not None:
                started.setdefault(step, []).append(len(history.batches))
            history.record(step)
        elif step[0] in started:
            producer, is_commit = step
            outcomes |= dict.fromkeys(started.pop(producer), is_commit)
            history.ends(producer, commit=is_commit)
    return history.batches, outcomes


def committed_offsets(steps, outcomes):
    """Return the committed offsets below the first open transaction."""
    open_offsets = [offset for offset, outcome in outcomes.items() if outcome is None]
    end = min(open_offsets, default=len(steps) * 2)
    return [offset for offset, outcome in outcomes.items() if outcome and offset < end]


class Stream:
    """Calls a reader as Spark does, and collects the offsets it returns."""

    def __init__(self, directory, limit):
        self._directory = directory
        self._limit = limit
        self._checkpoint = None
        self.restart()
        self.end = self._reader.initialOffset()
        self.offsets = []

    def restart(self):
        source = OdradekSource(
            {
                "path": str(self._directory.path),
                "columns": "offset",
                "startingOffsets": "earliest",
                "maxSplitBytes": "200",
            }
        )
        self._reader = source.streamReader(source.schema())

    def repeat(self):
        """Read the last batch again, as after a crash before its commit."""
        if self._checkpoint:
            start, end, rows = self._checkpoint
            assert self._read(start, end) == rows

    def read_batch(self):
        end = self._reader.latestOffset(self.end, self._limit)
        if end == self.end:
            return False
        rows = self._read(self.end, end)
        self._checkpoint = (self.end, end, rows)
        self._reader.commit(self.end)
        self.offsets += rows
        self.end = end
        return True

    def _read(self, start, end):
        return [
            row["offset"]
            for task in self._reader.partitions(start, end)
            for batch in self._reader.read(task)
            for row in rows_of(batch)
        ]


@given(
    steps=st.lists(STEPS, min_size=1, max_size=30),
    polls=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=8),
    split_at=st.integers(1, 29),
    limit=st.sampled_from((None, 1, 3, 7)),
)
def test_stream_reads_committed_records_once_and_in_order(steps, polls, split_at, limit):
    batches, outcomes = build_history(steps)
    with tempfile.TemporaryDirectory() as folder:
        directory = LogDirectory(Path(folder) / "logs")
        for first, end in pairwise(sorted({0, min(split_at, len(batches)), len(batches)})):
            directory.write(first, batches[first:end], indexed=True)
        directory.set_high_watermark(0)
        stream = Stream(directory, ReadMaxRows(limit) if limit else ReadAllAvailable())
        reached = 0
        for high_watermark, is_killed in [*polls, (len(batches), False)]:
            reached = max(reached, min(high_watermark, len(batches)))
            directory.set_high_watermark(reached)
            if is_killed:
                stream.restart()
                stream.repeat()
            stream.read_batch()
        while stream.read_batch():
            continue
        assert stream.offsets == committed_offsets(steps, outcomes)
