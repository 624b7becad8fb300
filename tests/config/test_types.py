"""Values and their text, compared with ConfigDef.parseType and convertToString of Kafka 3.9.1."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.types import ConfigType, Password

PARSED_BY_KAFKA = [
    (ConfigType.BOOLEAN, "true", True, "true"),
    (ConfigType.BOOLEAN, " TRUE\t", True, "true"),
    (ConfigType.BOOLEAN, "False", False, "false"),
    (ConfigType.INT, " 5\n", 5, "5"),
    (ConfigType.INT, "\x005\x1f", 5, "5"),
    (ConfigType.INT, "+5", 5, "5"),
    (ConfigType.INT, "-0", 0, "0"),
    (ConfigType.INT, "007", 7, "7"),
    (ConfigType.INT, "\u0663", 3, "3"),
    (ConfigType.INT, "2147483647", 2**31 - 1, "2147483647"),
    (ConfigType.INT, "-2147483648", -(2**31), "-2147483648"),
    (ConfigType.SHORT, "32767", 32767, "32767"),
    (ConfigType.SHORT, "-32768", -32768, "-32768"),
    (ConfigType.LONG, "9223372036854775807", 2**63 - 1, "9223372036854775807"),
    (ConfigType.LONG, "-9223372036854775808", -(2**63), "-9223372036854775808"),
    (ConfigType.DOUBLE, " 1 ", 1.0, "1.0"),
    (ConfigType.DOUBLE, ".5", 0.5, "0.5"),
    (ConfigType.DOUBLE, "5.", 5.0, "5.0"),
    (ConfigType.DOUBLE, "1e3", 1000.0, "1000.0"),
    (ConfigType.DOUBLE, "1.5d", 1.5, "1.5"),
    (ConfigType.DOUBLE, "1.5F", 1.5, "1.5"),
    (ConfigType.DOUBLE, "-0.0", -0.0, "-0.0"),
    (ConfigType.DOUBLE, "9999999", 9999999.0, "9999999.0"),
    (ConfigType.DOUBLE, "10000000", 1e7, "1.0E7"),
    (ConfigType.DOUBLE, "0.001", 0.001, "0.001"),
    (ConfigType.DOUBLE, "0.00099", 0.00099, "9.9E-4"),
    (ConfigType.DOUBLE, "-123456789.125", -123456789.125, "-1.23456789125E8"),
    (ConfigType.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308, "1.7976931348623157E308"),
    (ConfigType.DOUBLE, "1e22", 1e22, "1.0E22"),
    (ConfigType.DOUBLE, "1.5e-10", 1.5e-10, "1.5E-10"),
    (ConfigType.DOUBLE, "Infinity", math.inf, "Infinity"),
    (ConfigType.DOUBLE, "-Infinity", -math.inf, "-Infinity"),
    (ConfigType.DOUBLE, "1e400", math.inf, "Infinity"),
    (ConfigType.STRING, "  a b \t", "a b", "a b"),
    (ConfigType.STRING, "\xa0a", "\xa0a", "\xa0a"),
    (ConfigType.STRING, "", "", ""),
    (ConfigType.CLASS, " org.example.Builder ", "org.example.Builder", "org.example.Builder"),
    (ConfigType.LIST, " ", (), ""),
    (ConfigType.LIST, "a", ("a",), "a"),
    (ConfigType.LIST, " a , b,c ", ("a", "b", "c"), "a,b,c"),
    (ConfigType.LIST, "a,,b", ("a", "", "b"), "a,,b"),
    (ConfigType.LIST, ",", ("", ""), ","),
    (ConfigType.LIST, "a b", ("a b",), "a b"),
    (ConfigType.LIST, "a\xa0,\vb", ("a\xa0", "b"), "a\xa0,b"),
    (ConfigType.LIST, "a\x85,b\x1c,c", ("a\x85", "b\x1c", "c"), "a\x85,b\x1c,c"),
    (ConfigType.PASSWORD, " secret ", Password("secret"), "secret"),
]

REJECTED_BY_KAFKA = [
    *((ConfigType.BOOLEAN, text) for text in ("yes", "1", "")),
    *(
        (ConfigType.INT, text)
        for text in ("", "+", "1_000", "0x10", "5.0", "5L", "\xa05", "\u20035")
    ),
    *((ConfigType.INT, text) for text in ("2147483648", "-2147483649", "9" * 5000)),
    (ConfigType.SHORT, "32768"),
    (ConfigType.LONG, "9223372036854775808"),
    *((ConfigType.DOUBLE, text) for text in ("", ".", "nan", "inf", "1_0.5", "\u0663", "1e")),
]


@pytest.mark.parametrize(("config_type", "text", "value", "formatted"), PARSED_BY_KAFKA)
def test_text_is_parsed_and_formatted_as_in_kafka(config_type, text, value, formatted):
    assert config_type.parse(text) == value
    assert type(config_type.parse(text)) is type(value)
    assert config_type.format(value) == formatted


@pytest.mark.parametrize(("config_type", "text"), REJECTED_BY_KAFKA)
def test_text_that_kafka_rejects_is_rejected(config_type, text):
    with pytest.raises(ValueError, match=r"^must be "):
        config_type.parse(text)


def test_error_message_states_the_range():
    with pytest.raises(ValueError, match="must be a whole number from -32768 to 32767"):
        ConfigType.SHORT.parse("40000")


@pytest.mark.parametrize("text", ["NaN", "0x1p3"])
def test_nan_and_hexadecimal_doubles_are_rejected_unlike_in_kafka(text):
    with pytest.raises(ValueError, match="must be a number"):
        ConfigType.DOUBLE.parse(text)


@given(st.floats(allow_nan=False))
def test_formatted_double_parses_to_the_same_value(value):
    assert ConfigType.DOUBLE.parse(ConfigType.DOUBLE.format(value)) == value


def test_whole_number_is_formatted_as_a_double():
    assert ConfigType.DOUBLE.format(1) == "1.0"
    assert ConfigType.DOUBLE.format(20_000_000) == "2.0E7"


def test_password_is_hidden_in_text():
    secret = Password("hunter2")
    assert f"{secret} {secret!r} {[secret]}" == "[hidden] [hidden] [[hidden]]"


def test_passwords_compare_by_value():
    assert Password("a") == Password("a") != Password("b")


def test_type_numbers_are_those_of_describe_configs():
    names = ["boolean", "string", "int", "short", "long", "double", "list", "class", "password"]
    assert [config_type.name.lower() for config_type in ConfigType] == names
    assert [config_type.value for config_type in ConfigType] == list(range(1, 10))
