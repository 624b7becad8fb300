"""What the administrative clients can do, said in one way.

An ``TopicAdmin`` is a context manager.  What its library has no method for is in ``lacks``, by the
name that it has here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Described:
    """A partition: who leads it, and who has it."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Brokers are host:port, by id."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, str]


class Admin(Protocol):
    """Whatever is refused is raised as client_driver.Refused."""

    name: str
    lacks: Collection[str]

    def __init__(self, address: str) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *failure: object) -> None: ...

    def create(self, topic: str, *, partitions: int, configs: Mapping[str, str] = ...) -> None: ...

    def topics(self) -> Collection[str]: ...

    def describe(self, topic: str) -> Mapping[int, Described]: ...

    def delete(self, topic: str) -> None: ...

    def grow(self, topic: str, *, partitions: int) -> None: ...

    def configs(self, topic: str) -> Mapping[str, str]: ...

    def broker_configs(self, broker_id: int) -> Mapping[str, str]: ...

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        """All that is not named is at its default from then on."""

    def alter_some(self, topic: str, configs: Mapping[str, str]) -> None: ...

    def delete_records(self, topic: str, *, before: int) -> int:
        """Of partition 0; the offset that is the first now."""

    def first_and_next_offset(self, topic: str) -> tuple[int, int]:
        """Of partition 0."""

    def log_dirs(self, topic: str) -> Mapping[str, Mapping[int, int]]:
        """By path, the size of each of its partitions there."""

    def elect(self, topic: str) -> str:
        """How electing the preferred leader of partition 0 ended."""

    def cluster(self) -> Cluster: ...
