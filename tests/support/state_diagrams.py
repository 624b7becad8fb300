"""The table of a state machine's moves, drawn as text for docs/state-machines.md."""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

AGAIN = "itself"


def diagram(moves: Mapping[Any, Collection[Any]]) -> str:
    """A line for every state, in the order of their declaration; indented, as code is."""
    states = [*moves]
    width = max(len(state.name) for state in states)
    lines = [f"    {state.name:{width}}  ->  {_targets(state, moves[state])}" for state in states]
    return "\n".join(lines)


def _targets(state: Enum, targets: Collection[Enum]) -> str:
    in_order = [each for each in type(state) if each in targets]
    return ", ".join(AGAIN if each is state else each.name for each in in_order)
