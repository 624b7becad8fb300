"""Which contents of internal topics there are, and by what one looks for a single key in them.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Content(StrEnum):
    """What records are taken for; RAW leaves keys and values as the bytes they are."""

    RAW = "raw"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """Where records of a content are, and the option that names whose."""

    name: str
    id_option: str


INTERNAL_TOPICS: Mapping[Content, InternalTopic] = {
    Content.OFFSETS: InternalTopic("__consumer_offsets", "group"),
    Content.TRANSACTIONS: InternalTopic("__transaction_state", "transactionalId"),
}
