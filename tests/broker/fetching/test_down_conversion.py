"""Down-conversion of fetched records for old clients."""

import asyncio
import errno
from types import SimpleNamespace

import pytest

from odradek.broker import time_slice
from odradek.broker.fetching import down_conversion
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batches_of_any_magic, magic_of
from odradek.storage import files
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.hosted_log import HostedLog
from tests.support.calls import called, in_the_end
from tests.support.fetches import FetchBench, append, asked, content, errors, lines, request, told
from tests.support.hosted_partitions import BROKER
from tests.support.logs import end_transaction

FOLLOWER = 2


def magics(response):
    (partition_response,) = lines(response)
    return [magic_of(batch) for batch in batches_of_any_magic(content(partition_response))]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
async def test_old_versions_get_old_formats(tmp_path, version, magic):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", b"b")
    append(partition, b"c")
    response = await in_the_end(bench.fetched(request(asked(offset=1)), version=version))
    assert told(response) == [(0, "NONE", [b"b", b"c"])]
    assert set(magics(response)) == {magic}


async def test_newer_versions_get_the_stored_records(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    assert magics(bench.fetched(request(asked()), version=4)) == [2]


async def test_old_client_may_wait_for_records(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.fetched(request(asked(), max_wait_ms=60_000), version=0)
    append(partition, b"a")
    response = await waiting
    assert (told(response), magics(response)) == ([(0, "NONE", [b"a"])], [0])


@pytest.mark.parametrize(("version", "error"), [(3, "UNSUPPORTED_VERSION"), (4, "NONE")])
async def test_topic_may_disable_down_conversion(tmp_path, version, error):
    bench = FetchBench(tmp_path, message_downconversion_enable=False)
    append(bench.lead(), b"a")
    response = await in_the_end(bench.fetched(request(asked()), version=version))
    assert errors(response) == [error]


async def test_down_conversion_is_never_disabled_for_followers(tmp_path):
    bench = FetchBench(tmp_path, message_downconversion_enable=False)
    append(bench.lead(replicas=(BROKER, FOLLOWER)), b"a")
    fetch_request = request(asked(), replica_id=FOLLOWER)
    assert errors(await in_the_end(bench.fetched(fetch_request, version=3))) == ["NONE"]


@pytest.mark.parametrize(("version", "error"), [(9, "UNSUPPORTED_COMPRESSION_TYPE"), (10, "NONE")])
async def test_zstd_topic_is_rejected_for_old_versions(tmp_path, version, error):
    bench = FetchBench(tmp_path, compression_type="zstd")
    append(bench.lead(), b"a")
    (partition_response,) = lines(bench.fetched(request(asked()), version=version))
    assert errors(bench.fetched(request(asked()), version=version)) == [error]
    assert (partition_response.records is None) == (error != "NONE")


async def test_read_error_takes_the_directory_offline_and_is_not_leader_for_old_clients(
    tmp_path, monkeypatch, caplog
):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")

    def fail(*_):
        raise OSError(errno.EIO, "it cannot be read")

    monkeypatch.setattr(down_conversion, "files", SimpleNamespace(read_at=fail))
    response = await in_the_end(bench.fetched(request(asked()), version=3))
    assert errors(response) == ["NOT_LEADER_OR_FOLLOWER"]
    assert not partition.hosted_log.directory.is_online
    assert "Traceback" not in caplog.text


async def test_read_error_does_not_affect_a_directory_that_the_log_moved_to_meanwhile(
    tmp_path, monkeypatch
):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    before = partition.hosted_log
    new_directory = LogDirectory(tmp_path / "elsewhere", on_failure=lambda _: None)

    def fail(*_):
        partition.set_log(HostedLog(before.log, new_directory))
        raise OSError(errno.EIO, "it cannot be read")

    monkeypatch.setattr(down_conversion, "files", SimpleNamespace(read_at=fail))
    await in_the_end(bench.fetched(request(asked()), version=3))
    assert new_directory.is_online
    assert not before.directory.is_online


async def test_zstd_batch_of_a_producer_ends_the_conversion(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    append(partition, b"b", codec=Codec.ZSTD)
    assert told(await bench.fetched(request(asked()), version=3)) == [(0, "NONE", [b"a"])]
    response = await bench.fetched(request(asked(offset=1)), version=3)
    assert errors(response) == ["UNSUPPORTED_COMPRESSION_TYPE"]


async def test_corrupt_batch_ends_the_conversion(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    size = append(partition, b"a")
    append(partition, b"b")
    (path,) = partition.log.directory.glob("*.log")
    stored = bytearray(path.read_bytes())
    stored[size + 64] ^= 1
    path.write_bytes(stored)
    assert told(await bench.fetched(request(asked()), version=3)) == [(0, "NONE", [b"a"])]
    response = await bench.fetched(request(asked(offset=1)), version=3)
    assert errors(response) == ["CORRUPT_MESSAGE"]


async def test_response_without_convertible_records_is_not_empty(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"b", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(partition.log, producer_id=7, commit=True)
    (partition_response,) = lines(await bench.fetched(request(asked(offset=1)), version=3))
    assert partition_response.error_code == 0
    assert content(partition_response)
    assert list(batches_of_any_magic(content(partition_response))) == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_long_conversion_runs_in_time_slices(tmp_path, monkeypatch, codec):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    values = [b"%d" % number for number in range(5_000)]
    append(partition, *values, codec=codec)
    converting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked()), version=0))
    )
    slice_count = 0
    while not converting.done():
        await asyncio.sleep(0)
        slice_count += 1
    assert slice_count > 40
    assert told(await converting) == [(0, "NONE", values)]


async def test_stored_records_are_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "READ_CHUNK_BYTES", 500)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    values = [bytes([number]) * size for number, size in enumerate((10, 700, 30, 400, 90, 1, 600))]
    largest = max(append(partition, value) for value in values)
    lengths = []
    read_at = files.read_at

    def record_and_read(descriptor, length, position):
        lengths.append(length)
        return read_at(descriptor, length, position)

    monkeypatch.setattr(files, "read_at", record_and_read)
    response = await in_the_end(bench.fetched(request(asked()), version=2))
    assert told(response) == [(0, "NONE", values)]
    assert max(lengths) <= max(500, largest)


async def test_response_has_a_maximum_size_and_the_next_fetch_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES_MAX", 1_000)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    values = [bytes([number]) * 400 for number in range(7)]
    for value in values:
        append(partition, value)
    received, sizes = [], []
    while len(received) < len(values):
        response = await bench.fetched(request(asked(offset=len(received))), version=3)
        ((_, error, received_now),) = told(response)
        assert error == "NONE"
        received += received_now
        sizes.append(len(received_now))
    assert received == values
    assert sizes == [2, 2, 2, 1]


async def test_response_has_at_least_one_batch_of_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES_MAX", 1_000)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"x" * 5_000)
    append(partition, b"y")
    response = await bench.fetched(request(asked()), version=3)
    assert told(response) == [(0, "NONE", [b"x" * 5_000])]


async def test_every_partition_gets_its_share_of_full_responses(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES_MAX", 1)
    bench = FetchBench(tmp_path)
    for number in range(3):
        append(bench.lead(number), b"%d" % number)
    fetch_request = request(*(asked(number) for number in range(3)))
    record_counts = set()
    for _ in range(200):
        response = told(await bench.fetched(fetch_request, version=1))
        assert [partition_result[:2] for partition_result in response] == [
            (0, "NONE"),
            (1, "NONE"),
            (2, "NONE"),
        ]
        record_counts.add(tuple(len(values) for _, _, values in response))
    assert record_counts == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}


async def test_conversion_stops_if_the_client_disconnects(tmp_path, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    for _ in range(50):
        append(partition, b"v")
    fetch_request = called(request(asked()), version=3)
    converting = bench.hosting.background.start(in_the_end(bench.answered(fetch_request)))
    for _ in range(5):
        await asyncio.sleep(0)
    fetch_request.context.is_closed = True
    for _ in range(5):
        await asyncio.sleep(0)
    assert converting.done()
    assert told(await converting) == [(0, "NONE", [])]
