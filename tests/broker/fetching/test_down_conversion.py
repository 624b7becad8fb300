"""Fetched records for clients that do not know their format."""

import asyncio
import errno
from types import SimpleNamespace

import pytest

from odradek.broker import turns
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

OTHER = 2


def magics(response):
    (line,) = lines(response)
    return [magic_of(batch) for batch in batches_of_any_magic(content(line))]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
async def test_old_versions_get_old_formats(tmp_path, version, magic):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a", b"b")
    append(partition, b"c")
    response = await in_the_end(bench.fetched(request(asked(offset=1)), version=version))
    assert told(response) == [(0, "NONE", [b"b", b"c"])]
    assert set(magics(response)) == {magic}


async def test_newer_versions_get_the_records_as_they_are(tmp_path):
    bench = FetchBench(tmp_path)
    append(bench.lead(), b"a")
    assert magics(bench.fetched(request(asked()), version=4)) == [2]


async def test_an_old_client_waits_as_others_do(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    waiting = bench.fetched(request(asked(), max_wait_ms=60_000), version=0)
    append(partition, b"a")
    response = await waiting
    assert (told(response), magics(response)) == ([(0, "NONE", [b"a"])], [0])


@pytest.mark.parametrize(("version", "error"), [(3, "UNSUPPORTED_VERSION"), (4, "NONE")])
async def test_a_topic_may_rule_conversion_out(tmp_path, version, error):
    bench = FetchBench(tmp_path, message_downconversion_enable=False)
    append(bench.lead(), b"a")
    response = await in_the_end(bench.fetched(request(asked()), version=version))
    assert errors(response) == [error]


async def test_conversion_is_never_ruled_out_for_followers(tmp_path):
    bench = FetchBench(tmp_path, message_downconversion_enable=False)
    append(bench.lead(replicas=(BROKER, OTHER)), b"a")
    wanted = request(asked(), replica_id=OTHER)
    assert errors(await in_the_end(bench.fetched(wanted, version=3))) == ["NONE"]


@pytest.mark.parametrize(("version", "error"), [(9, "UNSUPPORTED_COMPRESSION_TYPE"), (10, "NONE")])
async def test_a_topic_stored_with_zstd_is_not_for_old_versions(tmp_path, version, error):
    bench = FetchBench(tmp_path, compression_type="zstd")
    append(bench.lead(), b"a")
    (line,) = lines(bench.fetched(request(asked()), version=version))
    assert errors(bench.fetched(request(asked()), version=version)) == [error]
    assert (line.records is None) == (error != "NONE")


async def test_a_disk_that_fails_meanwhile_is_offline_and_old_clients_look_elsewhere(
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
    assert not partition.hosted.directory.is_online
    assert "Traceback" not in caplog.text


async def test_a_disk_that_a_log_was_moved_to_meanwhile_is_not_to_blame(tmp_path, monkeypatch):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    before = partition.hosted
    elsewhere = LogDirectory(tmp_path / "elsewhere", on_failure=lambda _: None)

    def fail(*_):
        partition.use(HostedLog(before.log, elsewhere))
        raise OSError(errno.EIO, "it cannot be read")

    monkeypatch.setattr(down_conversion, "files", SimpleNamespace(read_at=fail))
    await in_the_end(bench.fetched(request(asked()), version=3))
    assert elsewhere.is_online
    assert not before.directory.is_online


async def test_a_producers_own_zstd_stops_conversion_where_it_is_met(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"a")
    append(partition, b"b", codec=Codec.ZSTD)
    assert told(await bench.fetched(request(asked()), version=3)) == [(0, "NONE", [b"a"])]
    refused = await bench.fetched(request(asked(offset=1)), version=3)
    assert errors(refused) == ["UNSUPPORTED_COMPRESSION_TYPE"]


async def test_damage_stops_conversion_where_it_is_met(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    size = append(partition, b"a")
    append(partition, b"b")
    (path,) = partition.log.directory.glob("*.log")
    stored = bytearray(path.read_bytes())
    stored[size + 64] ^= 1
    path.write_bytes(stored)
    assert told(await bench.fetched(request(asked()), version=3)) == [(0, "NONE", [b"a"])]
    refused = await bench.fetched(request(asked(offset=1)), version=3)
    assert errors(refused) == ["CORRUPT_MESSAGE"]


async def test_where_nothing_can_be_converted_the_client_sees_that_there_was_something(tmp_path):
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"b", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(partition.log, producer_id=7, commit=True)
    (line,) = lines(await bench.fetched(request(asked(offset=1)), version=3))
    assert line.error_code == 0
    assert content(line)
    assert list(batches_of_any_magic(content(line))) == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_others_have_their_turn_during_a_long_conversion(tmp_path, monkeypatch, codec):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    values = [b"%d" % number for number in range(5_000)]
    append(partition, *values, codec=codec)
    converting = bench.hosting.background.start(
        in_the_end(bench.fetched(request(asked()), version=0))
    )
    turn_count = 0
    while not converting.done():
        await asyncio.sleep(0)
        turn_count += 1
    assert turn_count > 40
    assert told(await converting) == [(0, "NONE", values)]


async def test_what_is_stored_is_read_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "PIECE_BYTES", 500)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    values = [bytes([number]) * size for number, size in enumerate((10, 700, 30, 400, 90, 1, 600))]
    largest = max(append(partition, value) for value in values)
    asked_for = []
    read_at = files.read_at

    def noted(descriptor, length, position):
        asked_for.append(length)
        return read_at(descriptor, length, position)

    monkeypatch.setattr(files, "read_at", noted)
    response = await in_the_end(bench.fetched(request(asked()), version=2))
    assert told(response) == [(0, "NONE", values)]
    assert max(asked_for) <= max(500, largest)


async def test_an_answer_is_full_after_some_bytes_and_the_client_asks_on(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES", 1_000)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    values = [bytes([number]) * 400 for number in range(7)]
    for value in values:
        append(partition, value)
    seen, sizes = [], []
    while len(seen) < len(values):
        response = await bench.fetched(request(asked(offset=len(seen))), version=3)
        ((_, error, some),) = told(response)
        assert error == "NONE"
        seen += some
        sizes.append(len(some))
    assert seen == values
    assert sizes == [2, 2, 2, 1]


async def test_an_answer_has_one_batch_however_large(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES", 1_000)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    append(partition, b"x" * 5_000)
    append(partition, b"y")
    response = await bench.fetched(request(asked()), version=3)
    assert told(response) == [(0, "NONE", [b"x" * 5_000])]


async def test_no_partition_starves_behind_others_that_fill_the_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES", 1)
    bench = FetchBench(tmp_path)
    for number in range(3):
        append(bench.lead(number), b"%d" % number)
    wanted = request(*(asked(number) for number in range(3)))
    seen = set()
    for _ in range(200):
        response = told(await bench.fetched(wanted, version=1))
        assert [line[:2] for line in response] == [(0, "NONE"), (1, "NONE"), (2, "NONE")]
        seen.add(tuple(len(values) for _, _, values in response))
    assert seen == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}


async def test_nothing_more_is_converted_for_a_peer_that_has_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    bench = FetchBench(tmp_path)
    partition = bench.lead()
    for _ in range(50):
        append(partition, b"v")
    call = called(request(asked()), version=3)
    converting = bench.hosting.background.start(in_the_end(bench.answered(call)))
    for _ in range(5):
        await asyncio.sleep(0)
    call.peer.is_gone = True
    for _ in range(5):
        await asyncio.sleep(0)
    assert converting.done()
    assert told(await converting) == [(0, "NONE", [])]
