"""Which paths may a node have?  Those that ZooKeeper takes, in every store.

A path that is not legal is a mistake of whoever made it, and a ValueError before anything is done:
it must not leave half of a run behind, nor, in ZooKeeper, reach a thread that cannot encode it.
"""

import re
from collections.abc import Iterable

from odradek.controller.store.base import Create, Delete, Operation

ROOT = "/"

# ZooKeeper counts in UTF-16, so nothing beyond U+FFFF passes either.
_NAME = r"(?!\.\.?(?:/|\Z))[^/\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+"
_VALID_PATH = re.compile(rf"/|(?:/{_NAME})+")


def is_valid_path(path: str) -> bool:
    return _VALID_PATH.fullmatch(path) is not None


def check_paths(operations: Iterable[Operation]) -> None:
    """Raises ValueError.  The root cannot be deleted, in any store."""
    for operation in operations:
        is_sequential = isinstance(operation, Create) and operation.is_sequential
        path = operation.path + "0" if is_sequential else operation.path
        if not is_valid_path(path) or (path == ROOT and isinstance(operation, Delete)):
            raise ValueError(f"invalid path for {type(operation).__name__}: {operation.path!r}")
