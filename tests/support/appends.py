"""Short ways to append to a topic with given settings."""

from odradek.config.definition import Layer
from odradek.storage.admission.offset_assignment import Admitted, admit
from odradek.storage.admission.rules import AppendRules, append_rules
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.settings import TopicSettings

NOW_MS = 1_700_000_000_000


def rules_of(**topic: str) -> AppendRules:
    """The rules of a topic, whose settings are named with underscores."""
    texts = {name.replace("_", "."): text for name, text in topic.items()}
    return append_rules(TopicSettings.read({Layer.TOPIC: texts}))


PLAIN = rules_of()
COMPACTED = rules_of(cleanup_policy="compact")


def admitted(
    records: bytes | bytearray,
    rules: AppendRules = PLAIN,
    *,
    next_offset: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    now_ms: int = NOW_MS,
) -> Admitted:
    """As the leader of epoch 7 takes it, in memory of its own."""
    return admit(
        bytearray(records),
        rules,
        next_offset=next_offset,
        leader_epoch=7,
        origin=origin,
        now_ms=now_ms,
    )


def written(admitted: Admitted) -> bytes:
    return b"".join(admitted.buffers)
