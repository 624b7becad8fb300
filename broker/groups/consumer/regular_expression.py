"""Subscriptions by a regular expression: which names match, by the rules of RE2.

RE2 has no backtracking and so no back references; its time is linear in the name, whatever the
expression, and its memory bounded.  It is an extra (see pyproject.toml); where it is not installed,
every expression is refused.

A name takes 4 us, most of it in the binding; the answers are kept by topics.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from odradek.protocol.errors import InvalidRegularExpression


def matching(expression: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match as a whole.  Raises InvalidRegularExpression."""
    pattern = compiled(expression)
    return frozenset(name for name in names if pattern.fullmatch(name))


def compiled(expression: str) -> Any:
    """Has ``fullmatch``.  Raises InvalidRegularExpression."""
    re2 = _library()
    if re2 is None:
        raise InvalidRegularExpression(
            "This broker runs without RE2 (the package google-re2), "
            "and takes no subscriptions by regular expressions."
        )
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        raise InvalidRegularExpression(
            f"`{expression}` is no regular expression: {_text(error)}."
        ) from error


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
