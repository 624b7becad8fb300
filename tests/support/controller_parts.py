"""Parts of a controller beside the machines, for tests of one part without the others.

Owner: the event loop.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.machinery import Machinery
from odradek.controller.tree_watches import TreeWatches
from tests.support.controller_scene import Scene


def machinery_of(scene: Scene) -> Machinery:
    return Machinery(
        scene.context, scene.reads, scene.writes, scene.batch, scene.partitions, scene.replicas
    )


@dataclass
class Noted:
    """Stands for the deletion of topics and for reassignments: notes what it is called with."""

    calls: list[tuple[str, Any]] = field(default_factory=list)

    async def failed(self, replicas: Collection[Any]) -> None:
        self.calls.append(("failed", [*replicas]))

    async def replicas_deleted(self, replicas: Collection[Any]) -> None:
        self.calls.append(("deleted", [*replicas]))

    async def resume(self, topics: Collection[str]) -> None:
        self.calls.append(("resume", [*topics]))

    async def request(self, topics: Collection[str]) -> None:
        self.calls.append(("request", [*topics]))

    async def clear_away(self, topics: Collection[str]) -> None:
        self.calls.append(("clear away", [*topics]))

    async def brokers_joined(self, ids: Collection[int]) -> None:
        self.calls.append(("joined", [*ids]))


@dataclass
class Events:
    """A queue that nobody empties, and watches that put into it."""

    put: list[object] = field(default_factory=list)

    @property
    def watches(self) -> TreeWatches:
        return TreeWatches(self.put.append)
