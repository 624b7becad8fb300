"""Values and their text, against what ConfigDef.parseType and convertToString of Kafka 3.9.1 do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.kinds import Kind, Password

READ_BY_KAFKA = [
    (Kind.BOOLEAN, "true", True, "true"),
    (Kind.BOOLEAN, " TRUE\t", True, "true"),
    (Kind.BOOLEAN, "False", False, "false"),
    (Kind.INT, " 5\n", 5, "5"),
    (Kind.INT, "\x005\x1f", 5, "5"),
    (Kind.INT, "+5", 5, "5"),
    (Kind.INT, "-0", 0, "0"),
    (Kind.INT, "007", 7, "7"),
    (Kind.INT, "\u0663", 3, "3"),
    (Kind.INT, "2147483647", 2**31 - 1, "2147483647"),
    (Kind.INT, "-2147483648", -(2**31), "-2147483648"),
    (Kind.SHORT, "32767", 32767, "32767"),
    (Kind.SHORT, "-32768", -32768, "-32768"),
    (Kind.LONG, "9223372036854775807", 2**63 - 1, "9223372036854775807"),
    (Kind.LONG, "-9223372036854775808", -(2**63), "-9223372036854775808"),
    (Kind.DOUBLE, " 1 ", 1.0, "1.0"),
    (Kind.DOUBLE, ".5", 0.5, "0.5"),
    (Kind.DOUBLE, "5.", 5.0, "5.0"),
    (Kind.DOUBLE, "1e3", 1000.0, "1000.0"),
    (Kind.DOUBLE, "1.5d", 1.5, "1.5"),
    (Kind.DOUBLE, "1.5F", 1.5, "1.5"),
    (Kind.DOUBLE, "-0.0", -0.0, "-0.0"),
    (Kind.DOUBLE, "9999999", 9999999.0, "9999999.0"),
    (Kind.DOUBLE, "10000000", 1e7, "1.0E7"),
    (Kind.DOUBLE, "0.001", 0.001, "0.001"),
    (Kind.DOUBLE, "0.00099", 0.00099, "9.9E-4"),
    (Kind.DOUBLE, "-123456789.125", -123456789.125, "-1.23456789125E8"),
    (Kind.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308, "1.7976931348623157E308"),
    (Kind.DOUBLE, "1e22", 1e22, "1.0E22"),
    (Kind.DOUBLE, "1.5e-10", 1.5e-10, "1.5E-10"),
    (Kind.DOUBLE, "Infinity", math.inf, "Infinity"),
    (Kind.DOUBLE, "-Infinity", -math.inf, "-Infinity"),
    (Kind.DOUBLE, "1e400", math.inf, "Infinity"),
    (Kind.STRING, "  a b \t", "a b", "a b"),
    (Kind.STRING, "\xa0a", "\xa0a", "\xa0a"),
    (Kind.STRING, "", "", ""),
    (Kind.CLASS, " org.example.Builder ", "org.example.Builder", "org.example.Builder"),
    (Kind.LIST, " ", (), ""),
    (Kind.LIST, "a", ("a",), "a"),
    (Kind.LIST, " a , b,c ", ("a", "b", "c"), "a,b,c"),
    (Kind.LIST, "a,,b", ("a", "", "b"), "a,,b"),
    (Kind.LIST, ",", ("", ""), ","),
    (Kind.LIST, "a b", ("a b",), "a b"),
    (Kind.LIST, "a\xa0,\vb", ("a\xa0", "b"), "a\xa0,b"),
    (Kind.LIST, "a\x85,b\x1c,c", ("a\x85", "b\x1c", "c"), "a\x85,b\x1c,c"),
    (Kind.PASSWORD, " secret ", Password("secret"), "secret"),
]

REFUSED_BY_KAFKA = [
    *((Kind.BOOLEAN, text) for text in ("yes", "1", "")),
    *((Kind.INT, text) for text in ("", "+", "1_000", "0x10", "5.0", "5L", "\xa05", "\u20035")),
    *((Kind.INT, text) for text in ("2147483648", "-2147483649", "9" * 5000)),
    (Kind.SHORT, "32768"),
    (Kind.LONG, "9223372036854775808"),
    *((Kind.DOUBLE, text) for text in ("", ".", "nan", "inf", "1_0.5", "\u0663", "1e")),
]


@pytest.mark.parametrize(("kind", "text", "value", "written"), READ_BY_KAFKA)
def test_text_is_read_and_written_as_kafka_does(kind, text, value, written):
    assert kind.parse(text) == value
    assert type(kind.parse(text)) is type(value)
    assert kind.write(value) == written


@pytest.mark.parametrize(("kind", "text"), REFUSED_BY_KAFKA)
def test_text_that_kafka_refuses_is_refused(kind, text):
    with pytest.raises(ValueError, match=r"^must be "):
        kind.parse(text)


def test_a_refusal_states_the_range():
    with pytest.raises(ValueError, match="must be a whole number from -32768 to 32767"):
        Kind.SHORT.parse("40000")


@pytest.mark.parametrize("text", ["NaN", "0x1p3"])
def test_numbers_that_no_bound_refuses_and_nobody_writes_are_refused_unlike_in_kafka(text):
    with pytest.raises(ValueError, match="must be a number"):
        Kind.DOUBLE.parse(text)


@given(st.floats(allow_nan=False))
def test_a_written_number_is_read_as_itself(value):
    assert Kind.DOUBLE.parse(Kind.DOUBLE.write(value)) == value


def test_a_whole_number_is_written_as_a_fraction_where_fractions_are_due():
    assert Kind.DOUBLE.write(1) == "1.0"
    assert Kind.DOUBLE.write(20_000_000) == "2.0E7"


def test_a_password_hides_itself():
    secret = Password("hunter2")
    assert f"{secret} {secret!r} {[secret]}" == "[hidden] [hidden] [[hidden]]"


def test_a_password_equals_its_like():
    assert Password("a") == Password("a") != Password("b")


def test_the_numbers_are_those_of_describe_configs():
    names = ["boolean", "string", "int", "short", "long", "double", "list", "class", "password"]
    assert [kind.name.lower() for kind in Kind] == names
    assert [kind.value for kind in Kind] == list(range(1, 10))
