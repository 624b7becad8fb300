"""Which of the cluster's topics does an expression match?  Each name is looked at once.

What is known of an expression is kept, with the names that it was known of.  When names come or go,
only these are looked at.  Where there are many, as for an expression that is new, whoever asks may
have them looked at in turns before, once for all who ask at the same time.  What was not asked for
since the names have changed often is forgotten: it would keep all the topics that there were.  Of
many expressions those are forgotten that no group uses.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container, Iterable, Mapping, Set
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from odradek.broker.groups.consumer.regular_expression import Matches, compiled
from odradek.broker.turns import FEW, Turn
from odradek.protocol.errors import InvalidRegularExpression

#: A guess: more than the groups of a broker use.  If they use more, twice as many as these.
EXPRESSIONS_KEPT = 1000

#: Likewise: topics are rarely created faster than that while members send a heartbeat.
CHANGES_KEPT = 8

#: Topics by their names.  Where two hold the same names, they should be the same object.
Names = Mapping[str, Any]

_NO_NAMES: Names = {}


class _Known(NamedTuple):
    """``found`` are those of ``names`` that match."""

    matches: Matches
    names: Names
    found: frozenset[str]

    def after(self, names: Names, found: Iterable[str]) -> _Known:
        """Of ``names``, where ``found`` are those that match among the new ones."""
        stayed = [name for name in self.found if name in names]
        return _Known(self.matches, names, frozenset([*stayed, *found]))


class Expressions:
    """Those that groups of this broker use, or have used lately."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._room = EXPRESSIONS_KEPT
        self._recent: deque[Names] = deque(maxlen=CHANGES_KEPT)
        #: Most have been matched with the same names: the last difference that was asked for.
        self._difference: tuple[Names, Names, Set[str]] = (_NO_NAMES, _NO_NAMES, frozenset())
        #: Held by whoever looks at the names in turns.
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def names_changed(self, names: Names) -> None:
        """To these, which will be asked about from now on."""
        self._recent.append(names)
        recent = {id(each) for each in self._recent}
        self._known = {
            expression: known
            for expression, known in self._known.items()
            if id(known.names) in recent
        }

    @property
    def are_many(self) -> bool:
        """Members may tell another one by every heartbeat: some should be forgotten."""
        return len(self._known) > self._room

    def forget_all_but(self, used: Container[str]) -> None:
        self._known = {each: known for each, known in self._known.items() if each in used}
        self._room = max(EXPRESSIONS_KEPT, 2 * len(self._known))

    def found(self, expression: str, names: Names) -> frozenset[str]:
        """Raises InvalidRegularExpression."""
        known = self._of(expression)
        if known.names is not names:
            found = filter(known.matches, self._new_among(names, known))
            known = self._known[expression] = known.after(names, found)
        return known.found

    def would_take_long(self, expressions: Iterable[str], names: Names) -> bool:
        """All of them together.  Not so those that are refused at once."""
        count = 0
        for expression in expressions:
            try:
                known = self._of(expression)
            except InvalidRegularExpression:
                continue
            if known.names is not names:
                count += 1 + len(self._new_among(names, known))
            if count > FEW:
                return True
        return False

    async def find_in_turns(self, expression: str, names: Names, turn: Turn) -> None:
        """After that, asking is quick.  One that is refused is refused to whoever asks then."""
        async with self._under_way.setdefault(expression, asyncio.Lock()):
            try:
                known, found = self._of(expression), []
            except InvalidRegularExpression:
                return
            if known.names is names:
                return  # somebody else was at it
            for name in self._new_among(names, known):
                if known.matches(name):
                    found.append(name)
                if turn.is_over:
                    await turn.next()
            self._known[expression] = known.after(names, found)
        if turn.is_over:
            await turn.next()

    def _of(self, expression: str) -> _Known:
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = _Known(compiled(expression), _NO_NAMES, frozenset())
        return known

    def _new_among(self, names: Names, known: _Known) -> Set[str]:
        before, after, new = self._difference
        if before is not known.names or after is not names:
            new = names.keys() - known.names.keys()
            self._difference = (known.names, names, new)
        return new
