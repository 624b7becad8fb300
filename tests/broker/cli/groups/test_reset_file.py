"""Inputs of a reset plan: times, durations and CSV lines."""

import argparse
import time

import pytest

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.groups.reset_file import read_plans, write_plans
from odradek.broker.cli.groups.times import parse_duration_ago_ms, parse_time_ms
from odradek.broker.cli.partitions import TopicAndPartition

DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2023-11-14T22:13:20.500", 1_700_000_000_500),
        ("2023-11-14T22:13:20.500Z", 1_700_000_000_500),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("@1700000000000", 1_700_000_000_000),
        ("1960-01-01T00:00:00", 0),
    ],
)
def test_time_without_a_zone_is_utc(text, milliseconds):
    assert parse_time_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "@", "@-1", "soon", "2023-13-01", "1700000000000ms"])
def test_invalid_time_is_rejected(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time such as"):
        parse_time_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P7D", 7 * DAY_MS),
        ("PT12H", DAY_MS // 2),
        ("p1dt2h30m", DAY_MS + 9_000_000),
        ("PT1.5S", 1_500),
        ("PT0S", 0),
    ],
)
def test_duration_is_subtracted_from_now(text, milliseconds):
    before = int(time.time() * 1000)
    ago = parse_duration_ago_ms(text)
    assert before - milliseconds <= ago <= int(time.time() * 1000) - milliseconds


def test_duration_that_reaches_before_1970_is_clamped():
    assert parse_duration_ago_ms("P999999999999D") == 0


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D", "P1W"])
def test_invalid_duration_is_rejected(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration such as"):
        parse_duration_ago_ms(text)


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "plan.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_lines_without_a_group_apply_to_the_named_group(written):
    path = written('orders,0,120\r\n\n"orders", 1 ,0\n')
    assert read_plans(path, ["g"]) == {
        "g": {TopicAndPartition("orders", 0): 120, TopicAndPartition("orders", 1): 0}
    }
    with pytest.raises(CommandFailed, match="the lines name no group: give exactly one"):
        read_plans(path, ["g", "h"])


def test_lines_with_a_group_apply_to_that_group(written):
    path = written('g,orders,0,120\n"h,1",orders,0,7\n')
    plans = {"g": {TopicAndPartition("orders", 0): 120}, "h,1": {TopicAndPartition("orders", 0): 7}}
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
def test_invalid_line_is_reported_with_its_number(written, line):
    with pytest.raises(CommandFailed, match=r"plan\.csv line 2: must be topic,partition,offset"):
        read_plans(written(f"orders,0,1\n{line}\n"), ["g"])


@pytest.mark.parametrize("text", [b"\xff\xfe\xff", 'orders,0,"1'])
def test_invalid_csv_is_reported(written, text):
    with pytest.raises(CommandFailed, match="invalid CSV"):
        read_plans(written(text), ["g"])


def test_written_plans_can_be_read_back(written, capsys):
    plans = {
        "g,1": {TopicAndPartition("orders", 1): 7, TopicAndPartition("orders", 0): 120},
        "h": {TopicAndPartition("a", 0): 1},
    }
    write_plans(plans.items(), with_group=True)
    printed = capsys.readouterr().out
    assert printed == '"g,1",orders,0,120\n"g,1",orders,1,7\nh,a,0,1\n'
    assert read_plans(written(printed), []) == plans
