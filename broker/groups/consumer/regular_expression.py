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
_MAX_SET_PROGRAM_SIZE = 10_000

#: Whether a name matches as a whole.
RegexMatcher = Callable[[str], object]


def compile_regex(regex: str) -> RegexMatcher:
    """Raises InvalidRegularExpression."""
    re2 = _load_re2()
    if re2 is None:
        raise InvalidRegularExpression(
            "This broker runs without RE2 (the package google-re2), "
            "and takes no regular expressions."
        )
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        raise InvalidRegularExpression(
            f"`{regex}` is not a valid regular expression: {_error_text(error)}."
        ) from error
    if pattern.programsize > _MAX_SET_PROGRAM_SIZE:
        matches_large: RegexMatcher = pattern.fullmatch
        return matches_large
    regex_set = re2.Set.FullMatchSet(options)
    regex_set.Add(regex)
    regex_set.Compile()
    matches: RegexMatcher = regex_set.Match
    return matches


@cache
def _load_re2() -> Any:
    """Loaded when it is first needed: few groups subscribe like this, and it takes 6 MB."""
    try:
        import re2
    except ImportError:
        return None
    return re2


def _error_text(error: Exception) -> str:
    (reason,) = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
