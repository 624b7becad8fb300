"""Copiers in processes of their own, and those who start another when one has ended.

    with Crew("confluent", broker.address, [CopierOptions(...), CopierOptions(...)]) as crew:
        crew.present[0].kill()
        crew.man()          whoever has ended, or was killed, is replaced

Owner: the thread of the test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

from tests.support.telling_process import TellingProcess

MODULE = "tests.support.copier_program"


@dataclass(frozen=True, slots=True)
class CopierOptions:
    group: str
    source: str
    target: str
    transactional_id: str
    #: Of a transaction.
    timeout_ms: int = 60_000
    #: How many of its transactions it aborts, and how long it waits in the middle of one, at most.
    abort_share: float = 0.0
    pause_s: float = 0.0
    #: Of the group; aiokafka's copiers are no members, and have partitions instead.
    assignor: str = "range"
    instance: str | None = None
    session_ms: int = 6_000
    partitions: Sequence[int] = ()


class Copier(TellingProcess):
    def __init__(self, library: str, address: str, options: CopierOptions) -> None:
        super().__init__(MODULE, library, address, json.dumps(asdict(options)))
        self.options = options

    def count(self, event: str) -> int:
        """Records of transactions that came to this end."""
        return sum(each["count"] for each in self.happened(event))


class Crew:
    """One copier for each of ``posts``, or none at the moment."""

    def __init__(self, library: str, address: str, posts: Sequence[CopierOptions]) -> None:
        self._library = library
        self._address = address
        self.posts = list(posts)
        self.present: list[Copier] = []
        self.everybody: list[Copier] = []

    def __enter__(self) -> Self:
        self.present = [self._start(options) for options in self.posts]
        return self

    def __exit__(self, *failure: object) -> None:
        for copier in self.everybody:
            copier.__exit__(*failure)

    def man(self) -> None:
        """Have another for each that has ended."""
        for number, copier in enumerate(self.present):
            if not copier.is_alive():
                self.present[number] = self._start(self.posts[number])

    def rename(self, number: int, transactional_id: str) -> None:
        """Who comes next does not know of what is open under the old id: it times out."""
        self.posts[number] = replace(self.posts[number], transactional_id=transactional_id)

    def _start(self, options: CopierOptions) -> Copier:
        copier = Copier(self._library, self._address, options).start()
        self.everybody.append(copier)
        return copier

    def count(self, event: str) -> int:
        return sum(copier.count(event) for copier in self.everybody)
