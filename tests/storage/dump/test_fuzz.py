"""The dump prints any file or reports it as damage. It never fails."""

import os
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.support.dumps import dumped, printed
from tests.support.mutation import mutated
from tests.support.recorded_directories import LEFT, RecordedDirectory
from tests.support.recorded_segments import SEGMENTS

ROUNDS = int(os.environ.get("ODRADEK_FUZZ_DUMPS", "150"))
SEED = int(os.environ.get("ODRADEK_FUZZ_SEED", "1"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Files of every type that Kafka wrote, in their directories."""
    directory = tmp_path_factory.mktemp("recorded")
    RecordedDirectory.unpack("transactions-stopped", directory)
    return [path for path in sorted((directory / LEFT).rglob("*")) if path.is_file()]


@pytest.mark.parametrize("ending", ["", ".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_dump_handles_any_damage_to_a_file(recorded, ending):
    random = Random(f"{SEED} {ending}")
    candidates = [path for path in recorded if path.suffix == ending or not ending]
    for _ in range(ROUNDS):
        path = random.choice(candidates)
        with damaged(path, random, candidates):
            check_dump(path)


@pytest.mark.parametrize("name", ["java-mixed-magic", "java-lz4", "java-magic-0-lz4", "java-zstd"])
def test_dump_handles_any_damage_to_a_segment_of_any_format(tmp_path, name):
    random = Random(f"{SEED} {name}")
    path = tmp_path / f"{name}.log"
    content = (SEGMENTS / path.name).read_bytes()
    for _ in range(ROUNDS):
        path.write_bytes(mutated(content, content, random))
        check_dump(path)


@contextmanager
def damaged(path, random, others):
    """Change the content of the file inside the block."""
    content = path.read_bytes()
    path.write_bytes(mutated(content, random.choice(others).read_bytes(), random))
    yield
    path.write_bytes(content)


def check_dump(path: Path) -> None:
    related_files = sorted(path.parent.glob(f"{path.stem}.*")) if path.stem.isdigit() else [path]
    dump = dumped("--verify", "--records", *related_files)
    output = printed("--records", *related_files)
    assert "Traceback" not in output.complaints
    assert dump.exit_code in (0, 1)
