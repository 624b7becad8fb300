"""Which batches does a reader see?

At read_uncommitted all but control batches.  At read_committed those of aborted transactions are
hidden too, as the transaction index says.  The markers that are met on the way are compared with
it: an abort after records that were shown, or a commit after hidden ones, tells that it is wrong.

Owner: whoever reads a split.
"""

from __future__ import annotations

import numpy as np

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.varints import Flags
from odradek.spark_jobs.scan.walk import Flaw
from odradek.spark_jobs.scan.wishes import Wishes


class Visibility:
    """Of the batches of one split, in their order."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        # Of each producer in a transaction: whether its records were hidden, and from where on.
        self._seen: dict[int, tuple[bool, int]] = {}

    def visible(self, group: BatchGroup) -> tuple[Flags, list[Flaw]]:
        """Of each batch, and the contradictions that were found."""
        wishes = self._wishes
        is_control = group.has_flag(CONTROL_FLAG)
        is_wanted = group.last_offsets >= wishes.start_offset
        is_wanted &= group.field("base_offset") < wishes.end_offset
        if not wishes.include_control:
            is_wanted &= ~is_control
        if wishes.aborted is None:
            return is_wanted, []
        flaws = []
        producer_ids, offsets = group.field("producer_id"), group.field("base_offset")
        for at in np.flatnonzero(group.has_flag(TRANSACTIONAL_FLAG)).tolist():
            producer_id, offset = int(producer_ids[at]), int(offsets[at])
            if is_control[at]:
                flaw = self._contradiction(group, at, self._seen.pop(producer_id, None))
                flaws += [flaw] if flaw else []
                continue
            is_hidden = wishes.aborted.hides(producer_id, offset)
            self._seen.setdefault(producer_id, (is_hidden, offset))
            if is_hidden:
                is_wanted[at] = False
        return is_wanted, flaws

    def _contradiction(
        self, group: BatchGroup, at: int, seen: tuple[bool, int] | None
    ) -> Flaw | None:
        """Between the marker in a batch and what became of the transaction's records."""
        if seen is None:
            return None
        was_hidden, first_offset = seen
        try:
            markers = group.markers(at)
        except CorruptMessage:  # whoever wants to see the marker will be told
            return None
        if all(marker.is_commit != was_hidden for marker in markers):
            return None
        what = "committed but hidden" if was_hidden else "aborted but shown"
        position = group.position + int(group.starts[at])
        return Flaw(
            position,
            position + int(group.sizes[at]),
            first_offset,
            f"a transaction that the transaction index gets wrong: {what}",
        )
