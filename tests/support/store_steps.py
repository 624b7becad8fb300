"""Random operations on metadata stores, and what a store makes of them, in comparable form.

Zxids, sessions and times differ from store to store; of those only the order or the presence is
kept.  Paths are few, so that operations meet.
"""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from odradek.controller.store.base import (
    Check,
    Create,
    CreateResult,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MetadataStore,
    MultiFailed,
    Operation,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
    Write,
    ZNode,
)

PATHS = st.sampled_from(["/a", "/a", "/b", "/a/x", "/a/x", "/a/y", "/b/x", "/a/x/z"])
LEAVES = st.sampled_from(["/a/y", "/b/x", "/a/x/z", "/a/n_0000000001", "/a/n_0000000002"])
PARENTS = st.sampled_from(["/n_", "/a/n_", "/b/n_", "/a/"])
VERSIONS = st.sampled_from([-1, -1, -1, 0, 0, 1, 2])
VALUES = st.binary(max_size=3)

CREATES = st.builds(Create, PATHS, VALUES)
EPHEMERAL = st.builds(Create, LEAVES, VALUES, st.just(True))
SEQUENTIAL = st.builds(Create, PARENTS, VALUES, st.booleans(), is_sequential=st.just(True))
WRITES: st.SearchStrategy[Write] = st.one_of(
    CREATES,
    EPHEMERAL,
    SEQUENTIAL,
    st.builds(SetData, PATHS | LEAVES, VALUES, VERSIONS),
    st.builds(Delete, PATHS | LEAVES, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
#: The names of watches; None leaves none.
NAMES: Any = st.sampled_from([None, "one", "two"])
READS = st.one_of(st.builds(kind, PATHS, NAMES) for kind in (GetData, Exists, GetChildren))
FENCED = st.tuples(st.builds(Check, PATHS, VERSIONS), WRITES)
MULTIS = st.lists(WRITES, min_size=1, max_size=4)
#: Few of them would find anything in an empty tree.
FIRST: list[Any] = [Create("/a"), Create("/b"), Create("/a/x")]
STEPS = st.lists(st.one_of(WRITES, READS, READS, MULTIS, FENCED), min_size=5, max_size=30).map(
    FIRST.__add__
)

Step = Operation | list[Write] | tuple[Check, Write]


async def told_of(store: MetadataStore, steps: list[Step]) -> list[object]:
    """The outcome of every step, each after the events that came before it."""
    seen = Told()
    for step in steps:
        outcome = await _outcome(store, seen.with_watch(step))
        await store.exists("/")
        seen.lines.append(comparable(outcome))
    return seen.lines


@dataclass
class Noticed:
    """Who was told of a change, one after the other: in no certain order, as in kazoo."""

    event: WatchEvent
    names: list[str]


class Told:
    def __init__(self) -> None:
        self.lines: list[object] = []
        self._watches = {name: self._watch(name) for name in ("one", "two")}

    def with_watch(self, step: Step) -> Step:
        if isinstance(step, GetData | Exists | GetChildren) and step.watch is not None:
            return replace(step, watch=self._watches[str(step.watch)])
        return step

    def _watch(self, name: str) -> Any:
        def note(event: WatchEvent) -> None:
            last = self.lines[-1] if self.lines else None
            if isinstance(last, Noticed) and last.event == event:
                last.names = sorted([*last.names, name])
            else:
                self.lines.append(Noticed(event, [name]))

        return note


async def _outcome(store: MetadataStore, step: Step) -> object:
    if isinstance(step, list):
        try:
            return await store.multi(step)
        except MultiFailed as failure:
            return failure
    if isinstance(step, tuple):
        fence, write = step
        return await store.run([write], fence=fence)
    return await store.run([step])


def comparable(outcome: object) -> object:
    match outcome:
        case MultiFailed():
            return ("multi failed", outcome.index, comparable(outcome.cause))
        case StoreError():
            return (type(outcome).__name__, outcome.path)
        case Stat():
            return outcome._replace(
                created_zxid=0,
                modified_zxid=int(outcome.modified_zxid > outcome.created_zxid),
                created_ms=0,
                modified_ms=0,
                ephemeral_owner=int(outcome.ephemeral_owner != 0),
            )
        case ZNode():
            return (outcome.value, comparable(outcome.stat))
        case CreateResult():
            return (outcome.path, comparable(outcome.stat))
        case [str(), *_]:
            return sorted(outcome)
        case list():
            return [comparable(each) for each in outcome]
        case _:
            return outcome
