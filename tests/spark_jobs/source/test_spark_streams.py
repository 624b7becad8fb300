"""Streams in Spark: limits, checkpoints, and a query that is killed and restarted."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from odradek.spark_jobs.source.error_messages import summarize_error
from tests.support.batches import batch_of
from tests.support.live_topics import consumed, send, wait_until_written_down
from tests.support.scans import LogDirectory

TIMEOUT_S = 150
TOPIC = "with-gzip"


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path / "logs")


def batches(first, end):
    return [bytes(batch_of(b"v", base_offset=offset)) for offset in range(first, end)]


class Query:
    """A streaming query that writes Parquet files."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.output, self.checkpoint = f"{folder}/output", f"{folder}/checkpoint"

    def run(self, path, **options):
        """Process all available data and return the number of rows in each batch."""
        stream = self.spark.readStream.format("odradek").options(**options)
        writer = stream.load(str(path)).writeStream.format("parquet")
        query = (
            writer.option("checkpointLocation", self.checkpoint)
            .option("path", self.output)
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(TIMEOUT_S)
            return [progress["numInputRows"] for progress in query.recentProgress]
        finally:
            query.stop()

    @property
    def offsets(self):
        """The offsets of the last batch in the checkpoint."""
        folder = f"{self.checkpoint}/offsets"
        last = max(filter(str.isdigit, os.listdir(folder)), key=int)
        with open(f"{folder}/{last}") as file:
            return json.loads(file.read().splitlines()[-1])

    @property
    def written_rows(self):
        return sorted(
            (row.partition, row.offset) for row in self.spark.read.parquet(self.output).collect()
        )


def test_available_now_obeys_the_limit_and_resumes_from_the_checkpoint(spark, directory, tmp_path):
    query = Query(spark, tmp_path)
    directory.write(0, batches(0, 10), indexed=True)
    options = {
        "columns": "partition,offset",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
    }
    assert query.run(directory.path, **options) == [4, 4, 2]
    assert query.offsets == {"orders": {"0": 10}}
    directory.write(10, batches(10, 13))
    other = directory.path / "orders-1"
    other.mkdir()
    (other / directory.file(0).name).write_bytes(b"".join(batches(0, 3)))
    assert sum(query.run(directory.path, **options)) == 6
    assert query.offsets == {"orders": {"0": 13, "1": 3}}
    assert query.written_rows == [
        *((0, offset) for offset in range(13)),
        *((1, offset) for offset in range(3)),
    ]

    directory.write(20, batches(20, 25))
    directory.file(0).unlink()
    directory.file(10).unlink()
    with pytest.raises(Exception, match="data was lost") as raised:
        query.run(directory.path, **options)
    assert summarize_error(raised.value) == (
        "orders-0 starts at offset 20, but 13 is next: data was lost; "
        "set failOnDataLoss=false to continue without it"
    )
    assert sum(query.run(directory.path, failOnDataLoss="false", **options)) == 5


def test_killed_query_loses_and_repeats_nothing(spark, live_broker, tmp_path):
    query = Query(spark, tmp_path)
    options = {"topics": TOPIC, "columns": "partition,offset", "startingOffsets": "earliest"}
    program = [sys.executable, "-m", "tests.support.streaming_program"]
    arguments = [str(live_broker.data_dir), query.output, query.checkpoint, json.dumps(options)]
    # A new session, so that its JVM is killed with it.
    killed = subprocess.Popen([*program, *arguments], start_new_session=True)
    try:
        wait_until_inside_a_batch(killed, query.checkpoint)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    assert count(query.checkpoint, "offsets") > count(query.checkpoint, "commits")
    send(live_broker, TOPIC, range(100), codec="gzip")
    wait_until_written_down(live_broker)
    query.run(live_broker.data_dir, maxOffsetsPerTrigger="300", **options)
    expected = consumed(live_broker, [TOPIC])
    assert query.written_rows == sorted((partition, offset) for _, partition, offset in expected)


def count(checkpoint, folder):
    try:
        return len(list(filter(str.isdigit, os.listdir(f"{checkpoint}/{folder}"))))
    except FileNotFoundError:
        return 0


def wait_until_inside_a_batch(process, checkpoint):
    """Wait until two batches are committed and a third has started; a JVM may start slowly."""
    deadline = time.monotonic() + TIMEOUT_S
    while not count(checkpoint, "offsets") > count(checkpoint, "commits") >= 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
