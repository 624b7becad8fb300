"""Asynchronous tests run as such."""

from tests.support.loops import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
