"""The controller and controller epoch znodes in all versions that Kafka has written."""

import pytest

from odradek.controller.store.payloads.controller import ControllerEpoch, ControllerRegistration
from odradek.controller.store.payloads.json_object import CorruptPayload

VALUE = b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'


def test_controller_is_encoded_as_in_kafka():
    registration = ControllerRegistration(1, timestamp_ms=1700000000000)
    assert registration.encode() == VALUE
    assert ControllerRegistration.decode(VALUE) == registration


@pytest.mark.parametrize(
    ("value", "registration"),
    [
        (b"7", ControllerRegistration(7)),
        (b"2147483647", ControllerRegistration(2147483647)),
        (
            b'{"version":1,"brokerid":3,"timestamp":"1386000000000"}',
            ControllerRegistration(3, timestamp_ms=1386000000000),
        ),
        (b'{"version":1,"brokerid":3}', ControllerRegistration(3)),
    ],
)
def test_older_versions_are_decoded(value, registration):
    assert ControllerRegistration.decode(value) == registration


def test_kraft_controller_epoch_is_decoded():
    value = VALUE.replace(b":-1", b":12")
    assert ControllerRegistration.decode(value).kraft_controller_epoch == 12


def test_unknown_fields_are_kept():
    value = VALUE[:-1] + b',"x":[]}'
    assert ControllerRegistration.decode(value).encode() == value


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"-1",
        b"2147483648",
        b"x",
        b"1.5",
        b"{}",
        b'{"brokerid":"1"}',
        b'{"brokerid":1,"timestamp":"x"}',
        b'{"brokerid":1,"kraftControllerEpoch":null}',
    ],
)
def test_malformed_controller_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/controller: "):
        ControllerRegistration.decode(value)


@pytest.mark.parametrize("epoch", [0, 1, 2147483647])
def test_epoch_is_encoded_as_decimal_digits(epoch):
    assert ControllerEpoch(epoch).encode() == str(epoch).encode()
    assert ControllerEpoch.decode(str(epoch).encode()) == ControllerEpoch(epoch)


@pytest.mark.parametrize("value", [b"", b"-1", b"1 ", b"2147483648", b'{"epoch":1}'])
def test_malformed_epoch_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/controller_epoch: "):
        ControllerEpoch.decode(value)
