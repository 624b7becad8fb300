"""Which of the cluster's topics does an expression match?  Each name is looked at once.

What is known of an expression is kept, with the names that it was known of.  When names come or go,
only these are looked at.  Where there are many, as for an expression that is new, whoever asks may
have them looked at in turns before.  What was not asked for since the names have changed often is
forgotten: it would keep all the topics that there were.

Owner: the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.broker.groups.consumer.regular_expression import Matches, compiled
from odradek.broker.turns import FEW, Turn
from odradek.protocol.errors import InvalidRegularExpression

#: A guess: more than the groups of a broker use.
EXPRESSIONS_KEPT = 1000

#: Likewise: topics are rarely created faster than that while members send a heartbeat.
CHANGES_KEPT = 8

#: Topics by their names.  Where two hold the same names, they should be the same object.
Names = Mapping[str, Any]


class _Known(NamedTuple):
    """``found`` are those of ``names`` that match."""

    matches: Matches
    names: Names
    found: frozenset[str]

    def new_among(self, names: Names) -> set[str]:
        return set() if self.names is names else names.keys() - self.names.keys()

    def after(self, names: Names, found: Iterable[str]) -> _Known:
        """Of ``names``, where ``found`` are those that match among the new ones."""
        stayed = [name for name in self.found if name in names]
        return _Known(self.matches, names, frozenset([*stayed, *found]))


class Expressions:
    """Those that groups of this broker use, or have used lately."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._recent: deque[Names] = deque(maxlen=CHANGES_KEPT)

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

    def found(self, expression: str, names: Names) -> frozenset[str]:
        """Raises InvalidRegularExpression."""
        known = self._of(expression)
        if known.names is not names:
            found = filter(known.matches, known.new_among(names))
            known = self._known[expression] = known.after(names, found)
        return known.found

    def would_take_long(self, expression: str, names: Names) -> bool:
        """Not so one that is refused at once."""
        try:
            return len(self._of(expression).new_among(names)) > FEW
        except InvalidRegularExpression:
            return False

    async def find_in_turns(self, expression: str, names: Names, turn: Turn) -> None:
        """After that, asking is quick."""
        known, found = self._of(expression), []
        for name in known.new_among(names):
            if known.matches(name):
                found.append(name)
            if turn.is_over:
                await turn.next()
        self._known[expression] = known.after(names, found)

    def _of(self, expression: str) -> _Known:
        known = self._known.get(expression)
        if known is None:
            if len(self._known) >= EXPRESSIONS_KEPT:
                self._known.clear()  # members may tell another one by every heartbeat
            known = self._known[expression] = _Known(compiled(expression), {}, frozenset())
        return known
