"""Compiles regular expressions of clients with RE2, for topic subscriptions and ListTransactions.

RE2 does not backtrack and has no back references.  Its time is linear in the length of the name for
every expression, and its memory is bounded.  It is an optional dependency (see pyproject.toml).
Without it every expression is rejected.

Matching a name takes 1 us: an RE2 set of one expression only reports whether a name matches.  A
match that reports its position takes ten times as long.  topic_regex_cache.py caches the matching
topics of the cluster.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from odradek.protocol.errors import InvalidRegularExpression

#: A set matches with a DFA whose states it creates on demand in bounded memory.  A pattern with
#: more instructions than this may need too much memory; it uses an ordinary match, which can do
#: without.
_MAX_SET_PROGRAM_SIZE = 10_000

#: Returns a true value if the whole name matches.
RegexMatcher = Callable[[str], object]


def compile_regex(regex: str) -> RegexMatcher:
    """Raises InvalidRegularExpression."""
    re2 = _load_re2()
    if re2 is None:
        raise InvalidRegularExpression(
            "This broker does not support regular expressions: "
            "RE2 (the package google-re2) is not installed."
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
    """Import RE2 on first use: few groups subscribe by regular expression, and it takes 6 MB."""
    try:
        import re2
    except ImportError:
        return None
    return re2


def _error_text(error: Exception) -> str:
    (reason,) = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
