"""What all tests share: how hard Hypothesis tries, and metadata stores, of which one is ZooKeeper.

HYPOTHESIS_PROFILE=thorough is for a long look, quick for any other.  Both draw anew in every run; a
failure prints the blob that repeats it.  Where CI is set, the same examples are drawn each time, so
that a change is judged by what it changed: looking for what nobody has found yet is for the runs of
developers.
"""

import os

from hypothesis import settings

from tests.support.broker_stores import new_store
from tests.support.zookeeper import chroot, own_zookeeper, zookeeper, zookeeper_stores

#: Here, since a session's fixture that two folders import is made twice.
__all__ = ["chroot", "new_store", "own_zookeeper", "zookeeper", "zookeeper_stores"]

settings.register_profile("quick", deadline=None, print_blob=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=5_000)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "quick")
)
