"""What plans of offsets are made of: times, durations, lines of CSV."""

import argparse
import time

import pytest

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups.reset_file import read_plans, write_plans
from odradek.broker.cli.groups.times import ago_ms, time_ms
from odradek.broker.cli.partitions import Place

DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("2023-11-14T22:13:20.500", 1_700_000_000_500),
        ("2023-11-14T22:13:20.500Z", 1_700_000_000_500),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("@1700000000000", 1_700_000_000_000),
        ("1960-01-01T00:00:00", 0),
    ],
)
def test_a_time_without_a_zone_is_utc(written, milliseconds):
    assert time_ms(written) == milliseconds


@pytest.mark.parametrize("written", ["", "@", "@-1", "soon", "2023-13-01", "1700000000000ms"])
def test_what_is_no_time_is_refused(written):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time such as"):
        time_ms(written)


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("P7D", 7 * DAY_MS),
        ("PT12H", DAY_MS // 2),
        ("p1dt2h30m", DAY_MS + 9_000_000),
        ("PT1.5S", 1_500),
        ("PT0S", 0),
    ],
)
def test_a_duration_is_taken_from_now(written, milliseconds):
    before = int(time.time() * 1000)
    ago = ago_ms(written)
    assert before - milliseconds <= ago <= int(time.time() * 1000) - milliseconds


def test_a_duration_longer_than_since_1970_is_since_1970():
    assert ago_ms("P999999999999D") == 0


@pytest.mark.parametrize("written", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D", "P1W"])
def test_what_is_no_duration_is_refused(written):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration such as"):
        ago_ms(written)


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "plan.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_lines_without_a_group_are_of_the_one_that_is_named(written):
    path = written('orders,0,120\r\n\n"orders", 1 ,0\n')
    assert read_plans(path, ["g"]) == {"g": {Place("orders", 0): 120, Place("orders", 1): 0}}
    with pytest.raises(CommandFailed, match="names no groups: name one"):
        read_plans(path, ["g", "h"])


def test_lines_with_a_group_are_of_it(written):
    path = written('g,orders,0,120\n"h,1",orders,0,7\n')
    plans = {"g": {Place("orders", 0): 120}, "h,1": {Place("orders", 0): 7}}
    assert read_plans(path, []) == read_plans(path, ["g"]) == plans


@pytest.mark.parametrize(
    "line",
    [
        "orders,0",
        "orders,x,1",
        "orders,0,-1",
        ",0,1",
        "g,orders,0,1",
        "a,g,orders,0,1",
        f"orders,0,{2**63}",
        f"orders,{2**31},0",
    ],
)
def test_a_line_of_another_form_is_told_with_its_number(written, line):
    with pytest.raises(CommandFailed, match=r"plan\.csv line 2: must be topic,partition,offset"):
        read_plans(written(f"orders,0,1\n{line}\n"), ["g"])


@pytest.mark.parametrize("text", [b"\xff\xfe\xff", 'orders,0,"1'])
def test_what_is_no_csv_is_told(written, text):
    with pytest.raises(CommandFailed, match="is not CSV"):
        read_plans(written(text), ["g"])


def test_plans_are_written_as_they_are_read(written, capsys):
    plans = {"g,1": {Place("orders", 1): 7, Place("orders", 0): 120}, "h": {Place("a", 0): 1}}
    write_plans(plans.items(), with_group=True)
    printed = capsys.readouterr().out
    assert printed == '"g,1",orders,0,120\n"g,1",orders,1,7\nh,a,0,1\n'
    assert read_plans(written(printed), []) == plans
