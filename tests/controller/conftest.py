"""Asynchronous tests run as such; ``stores`` are those that hold a cluster's metadata."""

from tests.support.loops import pytest_pyfunc_call
from tests.support.stores import stores
from tests.support.zookeeper import chroot, own_zookeeper, zookeeper, zookeeper_stores

__all__ = [
    "chroot",
    "own_zookeeper",
    "pytest_pyfunc_call",
    "stores",
    "zookeeper",
    "zookeeper_stores",
]
