"""Checks of log settings that a range or a choice cannot express.

Each check returns the rule that the value breaks, or None.
"""

import re

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES = ("compact", "delete")

_GZIP_LEVELS = (-1, *range(1, 10))
_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def check_gzip_level(level: int) -> str | None:
    return None if level in _GZIP_LEVELS else "must be between 1 and 9, or -1"


def check_throttled_replicas(replicas: tuple[str, ...]) -> str | None:
    if replicas == ("*",) or all(_REPLICA.fullmatch(replica) for replica in replicas):
        return None
    return "must be * or partition:broker pairs separated by commas"


# The protocol of a release changed in steps: 2.1 in 2.1-IV0, 2.1-IV1 and 2.1-IV2.
_IV_COUNTS = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0, "0.10.0": 2, "0.10.1": 3, "0.10.2": 1,
    "0.11.0": 3, "1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1,
    "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3,
    "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1, "4.0": 2,
}  # fmt: skip
_VERSIONS = {f"{release}-IV{step}" for release in _IV_COUNTS for step in range(_IV_COUNTS[release])}


def check_message_format_version(version: str) -> str | None:
    """Treat a bugfix release, such as 2.8.1, as its minor release."""
    parts = version.split(".")
    release = ".".join(parts[: 3 if version.startswith("0.") else 2])
    return (
        None
        if release in _IV_COUNTS or release in _VERSIONS
        else "must be a version of Kafka, such as 2.8"
    )
