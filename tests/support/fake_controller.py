"""A stand-in for the controller: it answers what it is told to, and notes what it is asked."""

from typing import Any


class FakeController:
    """``told`` is its answer, or why there is none; ``asked`` is how it was last called."""

    def __init__(self, told: Any) -> None:
        self._told = told
        self.asked: Any = None

    async def _answer(self, *asked: Any, **options: Any) -> Any:
        self.asked = asked, options
        if isinstance(self._told, Exception):
            raise self._told
        return self._told

    alter_partition = controlled_shutdown = allocate_producer_ids = _answer
    alter_partition_reassignments = list_partition_reassignments = update_features = _answer
