"""Short ways to append to a topic with given settings."""

from odradek.config.definition import ConfigSource
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.settings import TopicSettings
from odradek.storage.validation.append_rules import AppendRules, append_rules_for
from odradek.storage.validation.offset_assignment import (
    RecordsToAppend,
    validate_and_assign_offsets,
)

NOW_MS = 1_700_000_000_000


def rules_of(**topic: str) -> AppendRules:
    """The rules of a topic, whose settings are named with underscores."""
    texts = {name.replace("_", "."): text for name, text in topic.items()}
    return append_rules_for(TopicSettings.read({ConfigSource.TOPIC: texts}))


PLAIN = rules_of()
COMPACTED = rules_of(cleanup_policy="compact")


def admitted(
    records: bytes | bytearray,
    rules: AppendRules = PLAIN,
    *,
    next_offset: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    now_ms: int = NOW_MS,
) -> RecordsToAppend:
    """As the leader of epoch 7 takes it, in memory of its own."""
    return validate_and_assign_offsets(
        bytearray(records),
        rules,
        next_offset=next_offset,
        leader_epoch=7,
        origin=origin,
        now_ms=now_ms,
    )


def written(admitted: RecordsToAppend) -> bytes:
    return b"".join(admitted.buffers)
