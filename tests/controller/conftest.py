"""Asynchronous tests run as such; ``stores`` are those that hold a cluster's metadata."""

from tests.support.loops import pytest_pyfunc_call
from tests.support.stores import stores

__all__ = ["pytest_pyfunc_call", "stores"]
