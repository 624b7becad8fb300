"""A system that runs out of descriptors, to be put in the place of ``files.system``.

    with FewDescriptors() as system:                  none is missing: system.calls tells how many
        scenario()                                    calls take one
    with FewDescriptors(fail_at=3, count=2):          the third of them fails, and the fourth
        scenario()

Owner: the test's thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from odradek.storage import files

TAKING_ONE = frozenset({"open", "listdir", "sync_directory"})


class FewDescriptors:
    """The calls of ``files.SystemCalls``, of which some fail that need a descriptor."""

    def __init__(
        self, *, fail_at: int | None = None, count: int = 1, error: int = errno.EMFILE
    ) -> None:
        self.calls = 0
        self.failed_calls: list[str] = []
        self._failing = range(0) if fail_at is None else range(fail_at, fail_at + count)
        self._error = error
        self._over = files.system

    def __enter__(self) -> Self:
        self._over, files.system = files.system, self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        files.system = self._over

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._over, name)
        if name not in TAKING_ONE:
            return call

        def counted(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls in self._failing:
                self.failed_calls.append(name)
                raise OSError(self._error, os.strerror(self._error))
            return call(*arguments)

        return counted


def none_left(error: int = errno.EMFILE) -> FewDescriptors:
    return FewDescriptors(fail_at=1, count=1 << 30, error=error)
