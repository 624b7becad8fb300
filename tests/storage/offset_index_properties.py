"""An offset index behaves like a sorted list of (offset, position) pairs."""

import tempfile
from pathlib import Path

from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.strategies import integers

from odradek.storage.offset_index import OffsetIndex, OffsetPosition

BASE = 50


class OffsetIndexAgainstAList(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.model = []
        self.open()

    def open(self):
        path = Path(self.directory.name) / "index"
        self.index = OffsetIndex(path, base_offset=BASE, bytes_max=4096 * 3)

    def teardown(self):
        self.index.entries.close_handlers()
        self.directory.cleanup()

    @rule(gap=integers(1, 50), size=integers(1, 5000))
    def append(self, gap, size):
        last = self.model[-1] if self.model else OffsetPosition(BASE, 0)
        entry = OffsetPosition(last.offset + gap, last.position + size)
        self.index.append(entry.offset, entry.position)
        self.model.append(entry)

    @rule(offset=integers(BASE, BASE + 3000))
    def truncate(self, offset):
        self.index.truncate(offset)
        self.model = [entry for entry in self.model if entry.offset < offset]

    @rule()
    def reopen(self):
        self.index.entries.trim_to_valid_size()
        self.open()

    @rule(offset=integers(BASE, BASE + 3000))
    def lookup(self, offset):
        before = [entry for entry in self.model if entry.offset <= offset]
        assert self.index.lookup(offset) == (before[-1] if before else (BASE, 0))


TestOffsetIndexAgainstAList = OffsetIndexAgainstAList.TestCase
