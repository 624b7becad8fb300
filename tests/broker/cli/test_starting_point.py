"""``--from``: the position at which reading starts."""

import argparse

import pytest

from odradek.broker.cli.starting_point import StartingPoint, StartKind, parse_starting_point


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("beginning", StartingPoint(StartKind.OFFSET, 0)),
        ("end", StartingPoint(StartKind.BEFORE_END, 0)),
        ("120", StartingPoint(StartKind.OFFSET, 120)),
        ("-5", StartingPoint(StartKind.BEFORE_END, 5)),
        ("@1700000000000", StartingPoint(StartKind.TIMESTAMP, 1_700_000_000_000)),
        ("2023-11-14 22:13:20", StartingPoint(StartKind.TIMESTAMP, 1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", StartingPoint(StartKind.TIMESTAMP, 1_700_000_000_000)),
        ("2023-11-14T23:13:20.5+01:00", StartingPoint(StartKind.TIMESTAMP, 1_700_000_000_500)),
    ],
)
def test_starting_point_is_parsed(text, point):
    assert parse_starting_point(text) == point


@pytest.mark.parametrize("text", ["", "-", "@", "start", "1.5", "@-1", "--1", "2023-13-01"])
def test_invalid_starting_point_is_rejected(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not beginning, end"):
        parse_starting_point(text)
