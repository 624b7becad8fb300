"""Runs coroutine tests, and provides the metadata stores as the fixture ``stores``."""

from tests.support.loops import pytest_pyfunc_call
from tests.support.stores import stores

__all__ = ["pytest_pyfunc_call", "stores"]
