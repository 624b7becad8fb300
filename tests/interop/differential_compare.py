"""Where do two brokers answer differently, and is that meant?

A difference is named by the step and by the path of the field, such as
``responses[t].partitions[0].error_code``.  Entries of lists that bear a name are compared by it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_requests import Step
from tests.interop.differential_side import SILENT, Side

#: Fields that tell the entries of a list apart, the best first.
NAMES = (
    *("api_key", "resource_name", "name", "topic", "topic_name", "topic_id", "log_dir"),
    *("partition_index", "partition_id", "partition", "index", "broker_id"),
    *("key", "group_id", "member_id", "node_id", "transactional_id", "producer_id", "feature"),
)
#: Where Kafka's order of entries is more than that of a hash table.
ORDERED = frozenset({ApiKey.FETCH})
ABSENT = "<absent>"
AGREEMENT_S = 10.0
POLL_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Difference:
    step: Step
    path: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        where = f"{self.step.name} ({self.step.key.name} v{self.step.version}) {self.path or '.'}"
        return f"{where}\n    ours   {_short(self.ours)}\n    Kafka  {_short(self.theirs)}"


@dataclass(frozen=True, slots=True)
class Meant:
    """A difference that is to be: ``steps`` and ``path`` are regular expressions for the whole."""

    api: ApiKey
    reason: str
    steps: str = ".*"
    path: str = ".*"
    ours: Any = None
    kafka: Any = None
    releases: Sequence[str] = ("3.9.1", "4.1.1")

    def covers(self, difference: Difference) -> bool:
        return (
            self.api is difference.step.key
            and re.fullmatch(self.steps, difference.step.name) is not None
            and re.fullmatch(self.path, difference.path) is not None
            and self.ours in (None, difference.ours)
            and self.kafka in (None, difference.theirs)
        )


class Comparison:
    """Steps sent to both, one after the other; what differs and is not meant is kept."""

    def __init__(self, ours: Side, theirs: Side, meant: Sequence[Meant]) -> None:
        self.found: list[Difference] = []
        self.unused = [each for each in meant if theirs.name in each.releases]
        self._meant = list(self.unused)
        self._ours = ours
        self._theirs = theirs

    def send(self, steps: Iterable[Step]) -> None:
        """Up to the first that is not answered: those after it might be waited for as long."""
        for step in steps:
            found = self._differences(step)
            self.found += found
            if any(SILENT in (each.ours, each.theirs) for each in found):
                return

    def _differences(self, step: Step) -> list[Difference]:
        deadline = time.monotonic() + AGREEMENT_S
        while True:
            answers = self._ours.answer(step), self._theirs.answer(step)
            if SILENT in answers and not step.may_be_silent:
                return [Difference(step, "", *answers)]
            unequal = [Difference(step, *each) for each in _unequal(step, "", *answers)]
            found = [each for each in unequal if not self._is_meant(each)]
            is_over = not step.is_eventual or time.monotonic() > deadline
            is_early = _is_early(step, answers)
            if is_over and is_early:
                found.append(Difference(step, "what it waits for", *answers))
            if is_over or not (found or is_early):
                return found
            time.sleep(POLL_INTERVAL_S)

    def _is_meant(self, difference: Difference) -> bool:
        covering = [each for each in self._meant if each.covers(difference)]
        self.unused = [each for each in self.unused if each not in covering]
        return bool(covering)


def _is_early(step: Step, answers: tuple[Any, Any]) -> bool:
    """Though both may agree."""
    if _error_codes(answers) & set(step.not_yet):
        return True
    return any(step.shows not in repr(answer) for answer in answers)


def _error_codes(answer: Any) -> set[int]:
    match answer:
        case dict():
            return {answer.get("error_code", 0)} | _error_codes(list(answer.values()))
        case list() | tuple():
            return {code for each in answer for code in _error_codes(each)}
    return set()


def _unequal(step: Step, path: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    match ours, theirs:
        case dict(), dict():
            for name in {**ours, **theirs}:
                below = f"{path}.{name}".lstrip(".")
                mine, other = ours.get(name, ABSENT), theirs.get(name, ABSENT)
                yield from _unequal(step, below, mine, other)
        case list(), list():
            yield from _unequal_lists(step, path, ours, theirs)
        case _:
            if ours != theirs:
                yield path, ours, theirs


def _unequal_lists(
    step: Step, path: str, ours: list[Any], theirs: list[Any]
) -> Iterator[tuple[str, Any, Any]]:
    name = _name_of([*ours, *theirs])
    if name is None:
        if len(ours) != len(theirs):
            yield path, ours, theirs
            return
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _unequal(step, f"{path}[{number}]", mine, other)
        return
    order = [each[name] for each in ours], [each[name] for each in theirs]
    if step.key in ORDERED and order[0] != order[1]:
        yield f"{path} in order", *order
    mine, other = _by_name(name, ours), _by_name(name, theirs)
    for key in {**mine, **other}:
        yield from _unequal(step, f"{path}[{key}]", mine.get(key, ABSENT), other.get(key, ABSENT))


def _name_of(entries: list[Any]) -> str | None:
    if not all(isinstance(entry, dict) for entry in entries):
        return None
    return next((name for name in NAMES if all(name in entry for entry in entries)), None)


def _by_name(name: str, entries: list[Any]) -> dict[str, Any]:
    """An entry that comes again has a number, in the order of what the entries say."""
    found: dict[str, Any] = {}
    for entry in sorted(entries, key=repr):
        key = times = str(entry[name])
        again = 2
        while times in found:
            times, again = f"{key} again {again}", again + 1
        found[times] = entry
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 600 else f"{text[:600]}..."
