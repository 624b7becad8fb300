"""Values of the option ``content``, with the internal topic and the option for a key of each.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Content(StrEnum):
    """How records are decoded; RAW leaves keys and values as bytes."""

    RAW = "raw"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The topic of a content, and the option that selects one group or transactional id."""

    name: str
    id_option: str


INTERNAL_TOPICS: Mapping[Content, InternalTopic] = {
    Content.OFFSETS: InternalTopic("__consumer_offsets", "group"),
    Content.TRANSACTIONS: InternalTopic("__transaction_state", "transactionalId"),
}
