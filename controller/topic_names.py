"""What topics may be called, and the ids they get.

Names are 1 to 249 letters, digits, dots, underscores and hyphens of ASCII.  Metrics write a dot as
an underscore, so two names that differ only in that cannot both be taken.

Owner: none; immutable, any thread.
"""

import re
from random import Random
from uuid import UUID

from odradek.protocol.errors import InvalidTopic
from odradek.protocol.types import ZERO_UUID, Uuid

NAME_LENGTH_MAX = 249

#: Of KRaft's own log; no topic of that name may be made.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

#: No topic's; the second is that of KRaft's own log.
RESERVED_TOPIC_IDS = frozenset({ZERO_UUID, Uuid(bytes(15) + b"\1")})

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_error(name: str) -> str | None:
    """In words; None if it can be a topic's."""
    if not name:
        return "A topic's name cannot be empty."
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
    """Two topics whose names are the same in metrics collide."""
    return name.replace(".", "_")


def random_topic_id(random: Random) -> Uuid:
    """One that nobody has; none begins with a hyphen, which tools would take for an option."""
    while True:
        topic_id = Uuid(UUID(int=random.getrandbits(128), version=4).bytes)
        if topic_id not in RESERVED_TOPIC_IDS and not str(topic_id).startswith("-"):
            return topic_id
