"""What a member of a group needs of its client library, said in one way; and how it is set up.

Each library has a module of its own, so that a member's process imports no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

#: The module of each, and its class there.
LIBRARIES = {
    "confluent": ("confluent_member", "ConfluentMember"),
    "kafka-python": ("kafka_python_member", "KafkaPythonMember"),
    "aiokafka": ("aiokafka_member", "AiokafkaMember"),
}

Offsets = dict[tuple[str, int], int]
#: Topic, partition, offset and value.
Record = tuple[str, int, int, str]
Tell = Callable[..., None]
#: Is called when a commit was answered, with the name of the error, or with nothing.
Told = Callable[[str | None], None]


@dataclass(frozen=True, slots=True)
class MemberOptions:
    group: str
    #: One that begins with ``^`` is a regular expression.
    topics: list[str]
    assignor: str = "range"
    instance: str | None = None
    session_ms: int = 6_000
    #: Records at a time.
    polled_max: int = 100
    #: Whether the next records are polled only when those before are committed.
    is_commit_awaited: bool = True
    #: Where records are copied to before they are committed.
    copy_to: str | None = None


class MemberConsumer(Protocol):
    """One library's; it is subscribed when it is made."""

    def subscribe(self, topics: list[str]) -> None: ...

    def poll(self) -> list[Record]: ...

    def commit(self, offsets: Offsets, told: Told) -> None: ...

    def commit_later(self, offsets: Offsets, told: Told) -> None:
        """As commit, but without waiting for the answer."""

    def close(self) -> None: ...


# What kafka-python and aiokafka have in common


def settings(address: str, options: MemberOptions) -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "group_id": options.group,
        "group_instance_id": options.instance,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": options.session_ms,
        "heartbeat_interval_ms": options.session_ms // 5,
        "fetch_max_wait_ms": 100,
        "metadata_max_age_ms": 1000,
    }


def subscription(topics: list[str]) -> dict[str, Any]:
    """They have to be told whether it is an expression."""
    return {"pattern": topics[0]} if is_expression(topics) else {"topics": topics}


def is_expression(topics: list[str]) -> bool:
    return topics[0].startswith("^")


def records(polled: Mapping[Any, Iterable[Any]]) -> list[Record]:
    """By partition, as they are polled."""
    return [
        (each.topic, each.partition, each.offset, each.value.decode())
        for some in polled.values()
        for each in some
    ]
