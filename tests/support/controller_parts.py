"""Parts of a controller beside the machines, for tests of one part without the others.

Owner: the event loop.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.controller_services import ControllerServices
from odradek.controller.znode_change_handlers import ZNodeChangeHandlers
from tests.support.controller_scene import Scene


def machinery_of(scene: Scene) -> ControllerServices:
    return ControllerServices(
        scene.context, scene.reads, scene.writes, scene.batch, scene.partitions, scene.replicas
    )


@dataclass
class Noted:
    """Stands for the deletion of topics and for reassignments: notes what it is called with."""

    calls: list[tuple[str, Any]] = field(default_factory=list)

    async def fail_replica_deletion(self, replicas: Collection[Any]) -> None:
        self.calls.append(("failed", [*replicas]))

    async def complete_replica_deletion(self, replicas: Collection[Any]) -> None:
        self.calls.append(("deleted", [*replicas]))

    async def resume_deletion_for_topics(self, topics: Collection[str]) -> None:
        self.calls.append(("resume", [*topics]))

    async def enqueue_topics_for_deletion(self, topics: Collection[str]) -> None:
        self.calls.append(("request", [*topics]))

    async def discard_nonexistent_topics(self, topics: Collection[str]) -> None:
        self.calls.append(("clear away", [*topics]))

    async def maybe_resume_reassignments(self, broker_ids: Collection[int]) -> None:
        self.calls.append(("joined", [*broker_ids]))


@dataclass
class Events:
    """A queue that nobody empties, and watches that put into it."""

    put: list[object] = field(default_factory=list)

    @property
    def watches(self) -> ZNodeChangeHandlers:
        return ZNodeChangeHandlers(self.put.append)
