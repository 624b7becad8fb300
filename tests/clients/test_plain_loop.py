"""Clients of a broker without uvloop are served as those of any other."""

import sys

import pytest

from tests.clients.test_produce_and_consume import (
    test_a_reader_that_waits_is_told_of_what_comes,
    test_a_topic_may_take_larger_values_than_others,
    test_keys_headers_and_timestamps_come_back_in_every_codec,
    test_records_arrive_with_any_acknowledgement,
    test_values_of_any_size_come_back,
)
from tests.support.broker_process import BrokerProcess
from tests.support.plain_loop import broker, has_uvloop

__all__ = [
    "broker",
    "test_a_reader_that_waits_is_told_of_what_comes",
    "test_a_topic_may_take_larger_values_than_others",
    "test_keys_headers_and_timestamps_come_back_in_every_codec",
    "test_records_arrive_with_any_acknowledgement",
    "test_values_of_any_size_come_back",
]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_uvloop_is_used_where_it_is_found_and_only_there(broker, tmp_path):
    pytest.importorskip("uvloop")
    with BrokerProcess(tmp_path / "logs").start() as usual:
        assert has_uvloop(usual)
    assert not has_uvloop(broker)
