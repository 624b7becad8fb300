"""An offset as the oldest consumers keep it."""

import pytest

from odradek.controller.store.payloads.consumer_offset import ConsumerOffset
from odradek.controller.store.payloads.fields import PayloadDamaged


@pytest.mark.parametrize("offset", [0, 42, 2**63 - 1])
def test_an_offset_is_a_number_in_digits(offset):
    assert ConsumerOffset(offset).encode() == str(offset).encode()
    assert ConsumerOffset.decode(str(offset).encode()) == ConsumerOffset(offset)


@pytest.mark.parametrize("value", [b"", b"-1", b"x", b"9223372036854775808"])
def test_what_is_no_offset_is_refused(value):
    with pytest.raises(PayloadDamaged, match=r"^/consumers/g/offsets/t/0: "):
        ConsumerOffset.decode(value, "/consumers/g/offsets/t/0")
