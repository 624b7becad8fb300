"""Where reading begins, as it is written on the command line."""

import argparse

import pytest

from odradek.broker.cli.starting_point import Start, StartingPoint, starting_point


@pytest.mark.parametrize(
    ("written", "point"),
    [
        ("beginning", StartingPoint(Start.OFFSET, 0)),
        ("end", StartingPoint(Start.BEFORE_END, 0)),
        ("120", StartingPoint(Start.OFFSET, 120)),
        ("-5", StartingPoint(Start.BEFORE_END, 5)),
        ("@1700000000000", StartingPoint(Start.TIMESTAMP, 1_700_000_000_000)),
        ("2023-11-14 22:13:20", StartingPoint(Start.TIMESTAMP, 1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", StartingPoint(Start.TIMESTAMP, 1_700_000_000_000)),
        ("2023-11-14T23:13:20.5+01:00", StartingPoint(Start.TIMESTAMP, 1_700_000_000_500)),
    ],
)
def test_it_is_understood(written, point):
    assert starting_point(written) == point


@pytest.mark.parametrize("written", ["", "-", "@", "start", "1.5", "@-1", "--1", "2023-13-01"])
def test_what_makes_no_sense_is_refused(written):
    with pytest.raises(argparse.ArgumentTypeError, match="is not beginning, end"):
        starting_point(written)
