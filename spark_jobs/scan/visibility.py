"""Decide which batches a reader sees.

At read_uncommitted all batches except control batches are visible.  At read_committed the batches
of aborted transactions are hidden too, according to the transaction index.  The markers that are
read on the way verify the index: an abort after visible records, or a commit after hidden ones,
shows that the index is wrong.

Owner: the reader of a split.
"""

from __future__ import annotations

import numpy as np

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.read_spec import ReadSpec
from odradek.spark_jobs.scan.segment_reader import DamagedRange
from odradek.spark_jobs.scan.varints import BoolArray


class VisibilityFilter:
    """Filters the batches of one split, in order."""

    def __init__(self, spec: ReadSpec) -> None:
        self._spec = spec
        # For each producer with an open transaction: whether it was hidden, and its first offset.
        self._open_transactions: dict[int, tuple[bool, int]] = {}

    def find_visible(self, group: BatchGroup) -> tuple[BoolArray, list[DamagedRange]]:
        """Return whether each batch is visible, and where markers contradict the index."""
        spec = self._spec
        is_control = group.has_flag(CONTROL_FLAG)
        is_visible = group.last_offsets >= spec.start_offset
        is_visible &= group.field("base_offset") < spec.end_offset
        if not spec.include_control:
            is_visible &= ~is_control
        if spec.aborted is None:
            return is_visible, []
        damaged_ranges = []
        producer_ids, offsets = group.field("producer_id"), group.field("base_offset")
        for index in np.flatnonzero(group.has_flag(TRANSACTIONAL_FLAG)).tolist():
            producer_id, offset = int(producer_ids[index]), int(offsets[index])
            if is_control[index]:
                damaged_range = self._check_marker(
                    group, index, self._open_transactions.pop(producer_id, None)
                )
                damaged_ranges += [damaged_range] if damaged_range else []
                continue
            is_hidden = spec.aborted.contains(producer_id, offset)
            self._open_transactions.setdefault(producer_id, (is_hidden, offset))
            if is_hidden:
                is_visible[index] = False
        return is_visible, damaged_ranges

    def _check_marker(
        self, group: BatchGroup, index: int, transaction: tuple[bool, int] | None
    ) -> DamagedRange | None:
        """Compare the marker in a batch with how the transaction's records were treated."""
        if transaction is None:
            return None
        was_hidden, first_offset = transaction
        try:
            markers = group.markers(index)
        except CorruptMessage:  # a reader that includes control records reports it
            return None
        if all(marker.is_commit != was_hidden for marker in markers):
            return None
        outcome = "committed but hidden" if was_hidden else "aborted but shown"
        position = group.position + int(group.starts[index])
        return DamagedRange(
            position,
            position + int(group.sizes[index]),
            first_offset,
            f"the transaction index is wrong: a transaction is {outcome}",
        )
