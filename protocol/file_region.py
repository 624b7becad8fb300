"""A range of a file that the kernel sends without copying. Kafka: FileRecords, TransferableRecords.

Owner: none; immutable, any thread.
"""

from dataclasses import dataclass, field


# Treated as immutable, but not frozen: creating a frozen instance takes three times as long.
@dataclass(slots=True)
class FileRegion:
    """``length`` bytes of an open file from ``position`` on, for ``os.sendfile``.

    Treat as immutable.

    ``file`` keeps the descriptor open as long as the region exists, even if the log deletes the
    file in the meantime. A descriptor closed too early could refer to another file when it is read.
    """

    descriptor: int
    position: int
    length: int
    file: object = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return self.length
