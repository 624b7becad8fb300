"""Asynchronous tests run as such; turns may be made short."""

import pytest

from odradek.broker import time_slice
from tests.support.loops import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]


@pytest.fixture
def short_turns(monkeypatch):
    """Each is over when it begins, so that it takes little to need many."""
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
