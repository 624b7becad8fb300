"""The offset znode of consumers that commit to ZooKeeper."""

import pytest

from odradek.controller.store.payloads.consumer_offset import ConsumerOffset
from odradek.controller.store.payloads.json_object import CorruptPayload


@pytest.mark.parametrize("offset", [0, 42, 2**63 - 1])
def test_offset_is_encoded_as_decimal_digits(offset):
    assert ConsumerOffset(offset).encode() == str(offset).encode()
    assert ConsumerOffset.decode(str(offset).encode()) == ConsumerOffset(offset)


@pytest.mark.parametrize("value", [b"", b"-1", b"x", b"9223372036854775808"])
def test_malformed_offset_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/consumers/g/offsets/t/0: "):
        ConsumerOffset.decode(value, "/consumers/g/offsets/t/0")
