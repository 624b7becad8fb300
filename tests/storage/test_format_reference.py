"""docs/storage-format.md says what the modules say that embody the formats."""

import re
from pathlib import Path

import pytest

from odradek.storage.dump.checkpoints import TEXT_FILES
from odradek.storage.format_reference import refreshed
from odradek.storage.manager import lock
from odradek.storage.paths import Content, Purpose, Stage

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "storage-format.md"


def test_the_parts_taken_from_modules_are_fresh():
    written = DOCUMENT.read_text()
    assert refreshed(written) == written


def test_every_part_has_something_in_it():
    parts = re.findall(r"<!-- \w+ of \S+ -->(.*?)<!-- end -->", DOCUMENT.read_text(), re.DOTALL)
    assert len(parts) > 10
    assert all(part.strip() for part in parts)


@pytest.mark.parametrize(
    "name",
    [
        *TEXT_FILES,
        *(content.value for content in Content),
        *(stage.value for stage in Stage if stage.value),
        *(purpose.value for purpose in Purpose if purpose.value),
        lock.FILE_NAME,
    ],
)
def test_every_file_of_a_log_directory_is_in_it(name):
    assert name in DOCUMENT.read_text()


def test_a_part_is_written_anew_and_the_rest_is_kept():
    document = "before\n<!-- format of storage/offset_index.py -->\nstale\n<!-- end -->\nafter\n"
    fresh = refreshed(document)
    assert fresh.startswith("before\n<!-- format of storage/offset_index.py -->\n\n    relative ")
    assert fresh.endswith("\n\n<!-- end -->\nafter\n")
    assert "stale" not in fresh
    assert refreshed(fresh) == fresh


def test_what_is_said_of_owners_is_left_out():
    document = "<!-- text of storage/offset_index.py -->\n<!-- end -->\n"
    assert "where in the .log file should a search" in refreshed(document)
    assert "Owner:" not in refreshed(document)
