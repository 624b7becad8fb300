"""Regular expressions of clients: which names match, by the rules of RE2.

Groups subscribe by them, and transactions are listed by them.

RE2 has no backtracking and so no back references; its time is linear in the name, whatever the
expression, and its memory bounded.  It is an extra (see pyproject.toml); where it is not installed,
every expression is refused.

A name takes 1 us: a set of one expression says only whether it matches, while a match that tells
where it matched takes ten times that.  What is known of whole clusters is kept by expressions.py.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from odradek.protocol.errors import InvalidRegularExpression

#: A set works by states that are made as it goes, and there must be room for some of them: where
#: an expression has more instructions than this, it is matched as a match that can do without.
_INSTRUCTIONS_OF_A_SET = 10_000

#: Whether a name matches as a whole.
Matches = Callable[[str], object]


def compiled(expression: str) -> Matches:
    """Raises InvalidRegularExpression."""
    re2 = _library()
    if re2 is None:
        raise InvalidRegularExpression(
            "This broker runs without RE2 (the package google-re2), "
            "and takes no regular expressions."
        )
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(expression, options)
    except re2.error as error:
        raise InvalidRegularExpression(
            f"`{expression}` is no regular expression: {_text(error)}."
        ) from error
    if pattern.programsize > _INSTRUCTIONS_OF_A_SET:
        large: Matches = pattern.fullmatch
        return large
    only = re2.Set.FullMatchSet(options)
    only.Add(expression)
    only.Compile()
    matches: Matches = only.Match
    return matches


@cache
def _library() -> Any:
    """Loaded when it is first needed: few groups subscribe like this, and it takes 6 MB."""
    try:
        import re2
    except ImportError:
        return None
    return re2


def _text(error: Exception) -> str:
    (reason,) = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
