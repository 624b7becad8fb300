"""docs/storage-format.md matches the docstrings of the modules that define the formats."""

import re
from pathlib import Path

import pytest

from odradek.storage.dump.checkpoints import TEXT_FILES
from odradek.storage.format_reference import refresh
from odradek.storage.manager import lock
from odradek.storage.paths import DirectoryType, FileStage, LogFileType

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "storage-format.md"


def test_generated_sections_are_up_to_date():
    document = DOCUMENT.read_text()
    assert refresh(document) == document


def test_no_generated_section_is_empty():
    sections = re.findall(r"<!-- \w+ of \S+ -->(.*?)<!-- end -->", DOCUMENT.read_text(), re.DOTALL)
    assert len(sections) > 10
    assert all(section.strip() for section in sections)


@pytest.mark.parametrize(
    "name",
    [
        *TEXT_FILES,
        *(content.value for content in LogFileType),
        *(stage.value for stage in FileStage if stage.value),
        *(purpose.value for purpose in DirectoryType if purpose.value),
        lock.FILE_NAME,
    ],
)
def test_every_file_of_a_log_directory_is_documented(name):
    assert name in DOCUMENT.read_text()


def test_refresh_replaces_sections_and_keeps_the_rest():
    document = "before\n<!-- format of storage/offset_index.py -->\nstale\n<!-- end -->\nafter\n"
    fresh = refresh(document)
    assert fresh.startswith("before\n<!-- format of storage/offset_index.py -->\n\n    relative ")
    assert fresh.endswith("\n\n<!-- end -->\nafter\n")
    assert "stale" not in fresh
    assert refresh(fresh) == fresh


def test_owner_lines_are_left_out():
    document = "<!-- text of storage/offset_index.py -->\n<!-- end -->\n"
    assert "maps an offset to a position in the .log file" in refresh(document)
    assert "Owner:" not in refresh(document)
