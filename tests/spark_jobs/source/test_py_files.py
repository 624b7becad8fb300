"""The zip for ``--py-files`` is complete, small and reproducible."""

import subprocess
import sys
from zipfile import ZipFile

from odradek.spark_jobs.source.py_files import write_py_files


def test_zip_has_the_source_and_no_broker(tmp_path):
    count = write_py_files(tmp_path / "odradek.zip")
    names = ZipFile(tmp_path / "odradek.zip").namelist()
    assert len(names) == len(set(names)) == count
    assert {"odradek/__init__.py", "odradek/spark_jobs/source/data_source.py"} <= set(names)
    assert not [name for name in names if "/broker/" in name or not name.endswith(".py")]


def test_same_sources_give_the_same_bytes(tmp_path):
    for name in ("one.zip", "other.zip"):
        write_py_files(tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()


def test_modules_can_be_imported_from_the_zip(tmp_path):
    write_py_files(tmp_path / "odradek.zip")
    modules = "register, stream_reader, partition_tracker, damage_report, error_messages"
    program = (
        "import sys; sys.path.insert(0, 'odradek.zip'); "
        f"from odradek.spark_jobs.source import {modules}; print(partition_tracker.__file__)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.stdout.strip() == "odradek.zip/odradek/spark_jobs/source/partition_tracker.py", (
        result.stderr
    )
