"""What a member of a group needs of its client library, said in one way; and how it is set up.

Each library has a module of its own, so that a member's process imports no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

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


def expression_in(topics: list[str]) -> str | None:
    """For libraries that have to be told that it is one."""
    return topics[0] if topics[0].startswith("^") else None
