"""JsonObject reads the fields of a JSON payload by name and type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.store.payloads.json_object import (
    CorruptPayload,
    JsonObject,
    parse_number,
    write_json,
)


def parse(json):
    return JsonObject.parse(json.encode(), "/a/node")


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
def test_malformed_json_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/a/node: not JSON"):
        JsonObject.parse(value, "/a/node")


@pytest.mark.parametrize("value", [b"[]", b"1", b'"a"', b"null", b"true"])
def test_json_that_is_not_an_object_is_rejected(value):
    with pytest.raises(CorruptPayload, match="not a JSON object"):
        JsonObject.parse(value, "/a/node")


def test_error_names_the_path_and_the_reason():
    with pytest.raises(CorruptPayload) as error:
        parse('{"leader":"1"}').int32("leader")
    assert error.value.path == "/a/node"
    assert error.value.reason == "leader is not a 32-bit integer: '1'"


@pytest.mark.parametrize("field", ['"1"', "1.0", "true", "null", "[1]", "2147483648"])
def test_only_a_32_bit_integer_is_accepted_as_int32(field):
    with pytest.raises(CorruptPayload):
        parse(f'{{"a":{field}}}').int32("a", default=5)


def test_missing_number_takes_its_default_or_is_rejected():
    assert parse("{}").int32("a", default=5) == 5
    with pytest.raises(CorruptPayload):
        parse("{}").int32("a")


@pytest.mark.parametrize("field", ['"1700000000000"', "1700000000000"])
def test_quotes_around_a_quoted_number_are_optional(field):
    assert parse(f'{{"a":{field}}}').int64_from_text("a") == 1700000000000


@pytest.mark.parametrize(
    "field", ['""', '"x"', '" 1"', '"1.5"', "1.5", "null", '"9223372036854775808"', '"\\u0661"']
)
def test_text_that_is_not_a_number_is_rejected(field):
    with pytest.raises(CorruptPayload):
        parse(f'{{"a":{field}}}').int64_from_text("a")


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("1", JsonObject.text),
        ("null", JsonObject.text),
        ('{"0":1}', JsonObject.int32_list),
        ('[1,"2"]', JsonObject.int32_list),
        ("null", JsonObject.int32_list),
        ("[1]", JsonObject.text_list),
        ("[]", JsonObject.text_map),
        ('{"k":1}', JsonObject.text_map),
        ('{"0":1}', JsonObject.int32_list_map),
        ('{"0":[null]}', JsonObject.int32_list_map),
        ("[]", JsonObject.object_map),
        ('{"k":1}', JsonObject.object_map),
        ("{}", JsonObject.object_list),
        ("[1]", JsonObject.object_list),
    ],
)
def test_field_of_another_type_is_rejected(field, read):
    with pytest.raises(CorruptPayload):
        read(parse(f'{{"a":{field}}}'), "a")


@pytest.mark.parametrize("json", ["{}", '{"a":null}'])
def test_missing_map_is_empty(json):
    assert parse(json).text_map("a") == {}
    assert parse(json).int32_list_map("a") == {}
    assert parse(json).object_map("a") == {}


def test_last_of_two_fields_with_the_same_name_wins():
    assert parse('{"a":1,"a":2}').int32("a") == 2


@pytest.mark.parametrize("value", [b"0", b"7", b"2147483647"])
def test_bare_number_is_parsed(value):
    assert parse_number(value, "/n", max_value=2**31 - 1) == int(value)


@pytest.mark.parametrize("value", [b"", b"-1", b"+1", b" 1", b"1\n", b"x", b"2147483648", b"\xff"])
def test_malformed_bare_number_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/n: "):
        parse_number(value, "/n", max_value=2**31 - 1)


def test_text_is_escaped_as_in_kafka():
    text = 'a"b\\c\n\x01\x1f\x7fé\u2028😀/\\u001f'
    assert write_json({"k": text}, {}) == (
        b'{"k":"a\\"b\\\\c\\n\\u0001\\u001F\x7f\xc3\xa9\xe2\x80\xa8\\uD83D\\uDE00/\\\\u001f"}'
    )


def test_unknown_fields_are_written_after_known_fields():
    assert write_json({"b": 1}, {"a": [None, 1.5]}) == b'{"b":1,"a":[null,1.5]}'


@given(st.text())
def test_any_text_survives_a_round_trip(text):
    assert JsonObject.parse(write_json({"k": text}, {}), "/n").text("k") == text
