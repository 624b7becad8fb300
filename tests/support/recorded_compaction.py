"""Logs before and after Apache Kafka compacted them, pass by pass.

Each is an archive, ``<name>.tar.xz``, of directories ``before-1``, ``after-1``, ``before-2`` and so
on, with the .log and .txnindex files that were in use, and of ``passes.json``, which tells of each
pass what its compaction depended on.
"""

import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

COMPACTION = Path(__file__).resolve().parents[1] / "vectors" / "compaction"
ENDING = ".tar.xz"
PASSES = "passes.json"


@dataclass(frozen=True, slots=True)
class RecordedPass:
    """``number`` counts from 1; ``seen_ms`` is when the pass was seen to have ended."""

    number: int
    first_dirty_offset: int
    end_offset: int
    segment_bytes: int
    delete_retention_ms: int
    seen_ms: int

    @property
    def before(self) -> str:
        return f"before-{self.number}"

    @property
    def after(self) -> str:
        return f"after-{self.number}"


def save(directory: Path, name: str, passes: Iterable[RecordedPass]) -> None:
    """``directory`` holds the directories of the passes."""
    COMPACTION.mkdir(exist_ok=True)
    told = json.dumps([asdict(each) for each in passes], indent=1).encode()
    with tarfile.open(COMPACTION / f"{name}{ENDING}", "w:xz", preset=9) as archive:
        for path in sorted(directory.glob("*/*")):
            _add(archive, str(path.relative_to(directory)), path.read_bytes())
        _add(archive, PASSES, told)


def names_of_recorded_compactions() -> list[str]:
    return sorted(path.name.removesuffix(ENDING) for path in COMPACTION.glob(f"*{ENDING}"))


def load(name: str, target: Path) -> list[RecordedPass]:
    """Unpack into ``target``."""
    with tarfile.open(COMPACTION / f"{name}{ENDING}") as archive:
        archive.extractall(target, filter="data")
    return [RecordedPass(**told) for told in json.loads((target / PASSES).read_text())]


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
