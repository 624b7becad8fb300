"""Conversion of records to lines of text and JSON."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.cli.record_lines import Record, Template, from_json, to_json

contents = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
records = st.builds(
    Record,
    value=contents,
    key=contents,
    headers=st.lists(st.tuples(st.text(max_size=5), contents), max_size=3),
    partition=st.none() | st.integers(0, 100),
    timestamp=st.none() | st.integers(0, 1 << 42),
)


@given(records)
def test_record_survives_a_round_trip_through_json(record):
    line = to_json(replace(record, topic="t", offset=7))
    assert line.count(b"\n") == 1
    assert from_json(line) == record


@given(st.binary(max_size=20))
def test_bytes_that_are_not_text_are_printed_unchanged(value):
    assert Template("<{value}>").line(Record(value)) == b"<" + value + b">\n"


def test_null_is_printed_as_an_empty_string():
    record = Record(None, headers=[("h", None)])
    assert Template("{key}|{value}|{headers}").line(record) == b"||h=\n"


def test_value_may_be_any_json():
    assert from_json(b'{"value": {"a": [1]}}').value == b'{"a": [1]}'
