"""Valid topic names and topic ids.  Kafka: org.apache.kafka.common.internals.Topic.

A name has 1 to 249 ASCII letters, digits, dots, underscores and hyphens.  Metrics replace a dot
with an underscore, so two names that differ only in that collide and cannot both exist.

Owner: none; immutable, any thread.
"""

import re
from random import Random
from uuid import UUID

from odradek.protocol.errors import InvalidTopic
from odradek.protocol.types import ZERO_UUID, Uuid

NAME_LENGTH_MAX = 249

#: The name of KRaft's metadata log; no topic may have it.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

#: Ids that no topic may have; the second is that of KRaft's metadata log.
RESERVED_TOPIC_IDS = frozenset({ZERO_UUID, Uuid(bytes(15) + b"\1")})

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_error(name: str) -> str | None:
    """Return the error message for an invalid name; None if the name is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed."
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' is not allowed."
    if len(name) > NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the maximum length is {NAME_LENGTH_MAX} characters, but there "
            f"are {len(name)}: '{name}'."
        )
    if not _NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'."
        )
    return None


def is_valid_topic_name(name: str) -> bool:
    return topic_name_error(name) is None


def check_topic_name(name: str) -> None:
    error = topic_name_error(name)
    if error is not None:
        raise InvalidTopic(error)


def has_collision_chars(name: str) -> bool:
    return "." in name or "_" in name


def unify_collision_chars(name: str) -> str:
    """Return the name used in metrics; topics with the same name there collide."""
    return name.replace(".", "_")


def random_topic_id(random: Random) -> Uuid:
    """Return a random id; none begins with a hyphen, which tools would parse as an option."""
    while True:
        topic_id = Uuid(UUID(int=random.getrandbits(128), version=4).bytes)
        if topic_id not in RESERVED_TOPIC_IDS and not str(topic_id).startswith("-"):
            return topic_id
