"""Runs asynchronous tests, and can make time slices short."""

import pytest

from odradek.broker import time_slice
from tests.support.loops import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]


@pytest.fixture
def short_turns(monkeypatch):
    """Every time slice is over at once, so a little work takes many slices."""
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
