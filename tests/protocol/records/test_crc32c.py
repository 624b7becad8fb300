"""CRC-32C: the crc32c wheel and crcmod compute the same function."""

import sys

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers

from odradek.protocol.records import crc32c as module
from odradek.protocol.records.crc32c import crc32c

CHECK_VALUE = 0xE3069283  # The published checksum of "123456789".


@pytest.fixture
def without_the_wheel(monkeypatch):
    monkeypatch.setitem(sys.modules, "crc32c", None)
    monkeypatch.setattr(module, "_checksum_function", None)


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_check_value_is_computed(buffer_type):
    assert crc32c(buffer_type(b"123456789")) == CHECK_VALUE


def test_checksum_of_a_slice_covers_only_the_slice():
    assert crc32c(memoryview(b"..123456789..")[2:-2]) == CHECK_VALUE


def test_checksum_can_be_computed_in_parts():
    assert crc32c(b"6789", crc32c(b"12345")) == CHECK_VALUE


def test_empty_input_has_the_checksum_zero():
    assert crc32c(b"") == 0


@pytest.mark.usefixtures("without_the_wheel")
@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_crcmod_is_used_without_the_wheel(buffer_type):
    assert crc32c(buffer_type(b"123456789")) == CHECK_VALUE
    assert crc32c(buffer_type(b"6789"), crc32c(buffer_type(b"12345"))) == CHECK_VALUE
    assert module._checksum_function.__module__.startswith("crcmod")


@given(binary(max_size=300), integers(0, 2**32 - 1))
def test_wheel_and_crcmod_agree(source, value):
    assert module._from_wheel()(source, value) == module._from_crcmod()(source, value)
