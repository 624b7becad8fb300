"""Small value types of the protocol.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple

from odradek.protocol.file_region import FileRegion

#: Record batches in transit: never copied, and not read at all if they are in a file.
RecordData = bytes | bytearray | memoryview | FileRegion


class Uuid(bytes):
    """A topic or directory id: sixteen bytes, printed as base64url without padding, as in Kafka.

    It is a subclass of bytes and not ``uuid.UUID``, because every Fetch from version 13 on has ids:
    creating a UUID takes 1.5 us, creating this takes 0.2 us.  Comparison and hash are inherited.
    """

    __slots__ = ()

    def __new__(cls, value: bytes) -> Uuid:
        uuid = bytes.__new__(cls, value)
        if len(uuid) != 16:
            raise ValueError(f"a Uuid must have 16 bytes, not {len(uuid)}")
        return uuid

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Parse the form that ``str()`` returns."""
        if len(text) != 22:
            raise ValueError(f"a Uuid must have 22 characters, not {len(text)}: {text!r}")
        return cls(urlsafe_b64decode(text + "=="))

    def __str__(self) -> str:
        return urlsafe_b64encode(self)[:22].decode()

    def __repr__(self) -> str:
        return f"Uuid.parse({str(self)!r})"


ZERO_UUID = Uuid(bytes(16))


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the given order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
