"""Validates the paths of operations, in every store by ZooKeeper's rules.

An invalid path is a bug of the caller.  It raises ValueError before anything is done, so a run is
never half done, and a path that ZooKeeper's protocol cannot encode never reaches kazoo's thread.
"""

import re
from collections.abc import Iterable

from odradek.controller.store.base import Create, Delete, Operation

ROOT = "/"

# ZooKeeper counts UTF-16 units, so characters beyond U+FFFF are invalid too.
_NAME = r"(?!\.\.?(?:/|\Z))[^/\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+"
_VALID_PATH = re.compile(rf"/|(?:/{_NAME})+")


def is_valid_path(path: str) -> bool:
    return _VALID_PATH.fullmatch(path) is not None


def check_paths(operations: Iterable[Operation]) -> None:
    """Raise ValueError if a path is invalid; no store can delete the root."""
    for operation in operations:
        is_sequential = isinstance(operation, Create) and operation.is_sequential
        path = operation.path + "0" if is_sequential else operation.path
        if not is_valid_path(path) or (path == ROOT and isinstance(operation, Delete)):
            raise ValueError(f"invalid path for {type(operation).__name__}: {operation.path!r}")
