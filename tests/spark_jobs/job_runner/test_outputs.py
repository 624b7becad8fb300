"""Results in each output format, for programs and for people."""

import csv
import json

import pyarrow as pa
import pytest
from pyarrow.parquet import read_table

from odradek.spark_jobs.job_runner import outputs
from odradek.spark_jobs.job_runner.job import Job, add_no_arguments
from odradek.spark_jobs.job_runner.result import Result, Table
from odradek.spark_jobs.scan.damage import ScanFailed

TIME_MS = 1_700_000_000_500
KEYS = pa.table(
    {
        "key": pa.array([b"alice", b"\xff\x00", None]),
        "records": [1234567, 50, None],
        "diskBytes": [1_500_000, 999, 0],
        "share": [0.5, 0.0123, None],
        "maxLateMs": [90_000, 5, None],
        "lastTime": pa.array([TIME_MS * 1000, None, None], pa.timestamp("us", "UTC")),
        "isOpen": [True, False, None],
        "partition": [0, 1000, 2],
    }
)
TOTAL = pa.table({"records": [7], "codecs": pa.array([["gzip", "zstd"]])})
TABLES = [Table("keys", "Hottest keys", KEYS), Table("total", "All in all", TOTAL)]


def write(*arguments, tables=TABLES):
    job = Job("try", "Try it.", add_no_arguments, lambda call: Result(TABLES))
    args = job.parser().parse_args(["/logs", *map(str, arguments)])
    outputs.check_arguments(args)
    outputs.write_tables(outputs.select_tables(tables, args), args, title="Try it")


def test_json_has_a_line_for_each_row_with_its_table(capsys):
    write("--output", "json")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["table"] for line in lines] == ["keys", "keys", "keys", "total"]
    assert lines[0] == {
        "table": "keys",
        "key": "alice",
        "records": 1234567,
        "diskBytes": 1_500_000,
        "share": 0.5,
        "maxLateMs": 90_000,
        "lastTime": TIME_MS,
        "isOpen": True,
        "partition": 0,
    }
    assert lines[1]["key"] == {"base64": "/wA="}
    assert lines[2]["key"] is None
    assert lines[3]["codecs"] == ["gzip", "zstd"]


def test_table_has_units_and_aligned_columns(capsys):
    write("--output", "table")
    lines = capsys.readouterr().out.splitlines()
    names = "key       records  diskBytes   share  maxLateMs  lastTime                 isOpen"
    first = "alice     1,234,567     1.5 MB    50 %    1.5 min  2023-11-14 22:13:20.500  yes"
    second = r"\xff\x00         50      999 B  1.23 %       5 ms  -                        no"
    assert lines[0] == "Hottest keys"
    assert [line.split() for line in lines[2:5]] == [
        [*names.split(), "partition"],
        [*first.split(), "0"],
        [*second.split(), "1000"],
    ]
    widths = [len(line) for line in lines[2:6]]
    assert widths == [widths[0]] * 4  # the last column is right-aligned
    assert lines[-4:-1] == ["", "  records  7", "  codecs   gzip zstd"]


def test_csv_of_several_tables_is_one_file_per_table(tmp_path):
    write("--output", "csv", "--to", tmp_path / "all")
    with (tmp_path / "all" / "keys.csv").open(newline="") as file:
        assert list(csv.reader(file))[:2] == [
            KEYS.column_names,
            ["alice", "1234567", "1500000", "0.5", "90000", str(TIME_MS), "true", "0"],
        ]
    assert (tmp_path / "all" / "total.csv").read_text() == "records,codecs\n7,gzip zstd\n"


def test_csv_of_one_table_goes_to_the_given_file(tmp_path, capsys):
    write("--output", "csv", "--tables", "total")
    write("--output", "csv", "--tables", "total", "--to", tmp_path / "total.csv")
    assert capsys.readouterr().out == (tmp_path / "total.csv").read_text()


def test_parquet_keeps_all_columns(tmp_path):
    write("--output", "parquet", "--to", tmp_path / "all")
    assert read_table(tmp_path / "all" / "keys.parquet").equals(KEYS)
    assert read_table(tmp_path / "all" / "total.parquet").equals(TOTAL)


def test_html_page_has_every_table(tmp_path):
    write("--output", "html", "--to", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.index('id="keys"') < page.index('id="total"')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--output", "csv"],
            "csv holds one table: choose one of keys, total with --tables, or use --to DIR",
        ),
        (["--output", "parquet"], "--output parquet: name a file with --to"),
        (["--tables", "kes"], "--tables: no table 'kes'; the tables are keys, total"),
    ],
)
def test_invalid_output_is_reported_in_one_line(arguments, message):
    with pytest.raises(ScanFailed) as raised:
        write(*arguments)
    assert str(raised.value) == message


@pytest.mark.parametrize("output", ["csv", "parquet"])
def test_path_with_a_file_suffix_does_not_become_a_directory(tmp_path, output):
    to = tmp_path / f"all.{output}"
    with pytest.raises(
        ScanFailed, match=f"all.{output} holds one table: choose one of keys, total with"
    ):
        write("--output", output, "--to", to)
    assert not to.exists()
    to.mkdir()
    write("--output", output, "--to", to)
    assert {path.name for path in to.iterdir()} == {f"keys.{output}", f"total.{output}"}


class TestDamage:
    """The damage table, present or not, does not change where the other tables go."""

    DAMAGE = Table("damage", "Damaged ranges", pa.table({"position": [7]}), is_damage=True)

    @pytest.mark.parametrize("to", ["total", "total.csv"])
    def test_single_table_goes_to_a_file_with_or_without_damage(self, tmp_path, to):
        write("--output", "csv", "--to", tmp_path / to, tables=[TABLES[1], self.DAMAGE])
        assert (tmp_path / to).read_text() == "records,codecs\n7,gzip zstd\n"

    def test_directory_also_gets_the_damage_table(self, tmp_path):
        write("--output", "csv", "--to", tmp_path / "all", tables=[*TABLES, self.DAMAGE])
        assert (tmp_path / "all" / "damage.csv").read_text() == "position\n7\n"

    def test_damage_table_may_be_selected_when_there_is_no_damage(self, tmp_path, capsys):
        write("--output", "csv", "--tables", "damage", tables=[*TABLES, self.DAMAGE])
        write("--output", "csv", "--tables", "total,damage")
        assert capsys.readouterr().out == "position\n7\nrecords,codecs\n7,gzip zstd\n"


def test_missing_parent_directory_is_rejected_before_the_job_runs(tmp_path):
    with pytest.raises(ScanFailed, match=r"page\.html: no such directory /"):
        write("--output", "html", "--to", tmp_path / "missing" / "page.html")
