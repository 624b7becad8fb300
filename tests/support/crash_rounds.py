"""How long crash tests try, and how one that failed is told.

ODRADEK_CRASH_SEED      another seed than 0 draws other rounds
ODRADEK_CRASH_ROUNDS    how many times as many of them as usual
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.protocol.errors import DecodeError, KafkaError

SEED = int(os.environ.get("ODRADEK_CRASH_SEED", "0"))
TIMES = int(os.environ.get("ODRADEK_CRASH_ROUNDS", "1"))


def seeds(usual: int) -> list[int]:
    """That many seeds, or more if more are asked for."""
    return [SEED * 1_000_000 + number for number in range(usual * TIMES)]


@contextmanager
def told(what: object) -> Iterator[None]:
    """A failure inside says what was going on."""
    try:
        yield
    except (AssertionError, OSError, KafkaError, DecodeError) as failure:
        failure.add_note(f"with ODRADEK_CRASH_SEED={SEED}: {what}")
        raise


def copied(source: Path, target: Path) -> Path:
    """A fresh copy, whatever was there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target
