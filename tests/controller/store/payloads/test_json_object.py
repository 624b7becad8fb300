"""A JSON object whose fields are read by name and type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.store.payloads.fields import (
    Fields,
    PayloadDamaged,
    parse_number,
    write_json,
)


def fields_of(json):
    return Fields.parse(json.encode(), "/a/node")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b'{"a":1} x',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'\xef\xbb\xbf{"a":1}',
        b"[" * 100_000,
        b'{"a":' + b"1" * 5000 + b"}",
    ],
)
def test_what_is_not_json_is_refused(value):
    with pytest.raises(PayloadDamaged, match=r"^/a/node: not JSON"):
        Fields.parse(value, "/a/node")


@pytest.mark.parametrize("value", [b"[]", b"1", b'"a"', b"null", b"true"])
def test_json_that_is_no_object_is_refused(value):
    with pytest.raises(PayloadDamaged, match="not a JSON object"):
        Fields.parse(value, "/a/node")


def test_a_refusal_says_where_and_why():
    with pytest.raises(PayloadDamaged) as refusal:
        fields_of('{"leader":"1"}').int32("leader")
    assert refusal.value.node == "/a/node"
    assert refusal.value.why == "leader is no number of 32 bits: '1'"


@pytest.mark.parametrize("found", ['"1"', "1.0", "true", "null", "[1]", "2147483648"])
def test_only_a_whole_number_of_32_bits_is_one(found):
    with pytest.raises(PayloadDamaged):
        fields_of(f'{{"a":{found}}}').int32("a", default=5)


def test_a_number_that_is_not_there_has_its_default_or_is_refused():
    assert fields_of("{}").int32("a", default=5) == 5
    with pytest.raises(PayloadDamaged):
        fields_of("{}").int32("a")


@pytest.mark.parametrize("found", ['"1700000000000"', "1700000000000"])
def test_a_number_in_quotes_may_lack_them(found):
    assert fields_of(f'{{"a":{found}}}').int64_in_text("a") == 1700000000000


@pytest.mark.parametrize(
    "found", ['""', '"x"', '" 1"', '"1.5"', "1.5", "null", '"9223372036854775808"', '"\\u0661"']
)
def test_other_text_is_no_number(found):
    with pytest.raises(PayloadDamaged):
        fields_of(f'{{"a":{found}}}').int64_in_text("a")


@pytest.mark.parametrize(
    ("found", "read"),
    [
        ("1", Fields.text),
        ("null", Fields.text),
        ('{"0":1}', Fields.int32s),
        ('[1,"2"]', Fields.int32s),
        ("null", Fields.int32s),
        ("[1]", Fields.texts),
        ("[]", Fields.text_map),
        ('{"k":1}', Fields.text_map),
        ('{"0":1}', Fields.int32s_map),
        ('{"0":[null]}', Fields.int32s_map),
        ("[]", Fields.objects_map),
        ('{"k":1}', Fields.objects_map),
        ("{}", Fields.objects),
        ("[1]", Fields.objects),
    ],
)
def test_a_field_of_another_type_is_refused(found, read):
    with pytest.raises(PayloadDamaged):
        read(fields_of(f'{{"a":{found}}}'), "a")


@pytest.mark.parametrize("json", ["{}", '{"a":null}'])
def test_a_map_that_is_not_there_is_empty(json):
    assert fields_of(json).text_map("a") == {}
    assert fields_of(json).int32s_map("a") == {}
    assert fields_of(json).objects_map("a") == {}


def test_the_last_of_two_fields_with_one_name_counts():
    assert fields_of('{"a":1,"a":2}').int32("a") == 2


@pytest.mark.parametrize("value", [b"0", b"7", b"2147483647"])
def test_a_number_by_itself_is_read(value):
    assert parse_number(value, "/n", largest=2**31 - 1) == int(value)


@pytest.mark.parametrize("value", [b"", b"-1", b"+1", b" 1", b"1\n", b"x", b"2147483648", b"\xff"])
def test_what_is_no_number_by_itself_is_refused(value):
    with pytest.raises(PayloadDamaged, match=r"^/n: "):
        parse_number(value, "/n", largest=2**31 - 1)


def test_text_is_escaped_as_kafka_escapes_it():
    text = 'a"b\\c\n\x01\x1f\x7fé\u2028😀/\\u001f'
    assert write_json({"k": text}, {}) == (
        b'{"k":"a\\"b\\\\c\\n\\u0001\\u001F\x7f\xc3\xa9\xe2\x80\xa8\\uD83D\\uDE00/\\\\u001f"}'
    )


def test_what_is_unknown_comes_after_what_is_known():
    assert write_json({"b": 1}, {"a": [None, 1.5]}) == b'{"b":1,"a":[null,1.5]}'


@given(st.text())
def test_any_text_is_read_as_it_was_written(text):
    assert Fields.parse(write_json({"k": text}, {}), "/n").text("k") == text
