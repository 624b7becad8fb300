"""Makes the log directories below tests/vectors/data_directories anew, with real brokers.

    .venv/bin/python -m tests.interop.record_data_directories [DIRECTORY [RECIPE...]]

A Kafka 3.9 broker is written to and stopped, killed, or killed and its files damaged.  What it left
is kept; then it is started again, and what it tells of its partitions is what we are expected to
find.  It is stopped cleanly at last, so that its files show what it made of what it had left.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.interop.data_directory_damage import damage
from tests.interop.data_directory_recipes import DAMAGED, KILLED, RECIPES, STOPPED, Recipe
from tests.interop.data_directory_scene import Scene
from tests.interop.partition_observer import PartitionObserver, completed
from tests.support.apache_kafka import (
    BROKER_PROPERTIES,
    ApacheKafka,
    ZooKeeper,
    old_format_broker,
    zookeeper_broker,
)
from tests.support.kafka_jars import kafka_jars
from tests.support.recorded_directories import DATA_DIRECTORIES, RecordedDirectory

# Of the settings that the harness gives its brokers, those that whoever opens the logs must know.
LOG_PROPERTIES = ("log.index.size.max.bytes",)
NOT_KEPT = shutil.ignore_patterns(".lock", "*.tmp")


def main() -> None:
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA_DIRECTORIES
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, ZooKeeper(Path(scratch)) as zookeeper:
        for name in sys.argv[2:] or RECIPES:
            ends = (end for end in RECIPES[name].ends if end != DAMAGED)
            for end in ends:
                work = Path(scratch) / f"{name}-{end}"
                Recording(name, work, zookeeper.address).record(end, destination)


class Recording:
    """A broker, and a cluster of its own, for one recipe and one end."""

    def __init__(self, name: str, directory: Path, zookeeper: str) -> None:
        self._name = name
        self._recipe = RECIPES[name]
        self._directory = directory
        self._broker = _broker(self._recipe, directory, f"{zookeeper}/{directory.name}")

    def record(self, end: str, destination: Path) -> None:
        """Also, if it is to be killed, what becomes of it if it is damaged."""
        scene = Scene(self._broker.start(), zookeeper=_setting(self._broker, "zookeeper.connect"))
        self._recipe.write(scene)
        if end == STOPPED:
            self._broker.stop()
        else:
            self._broker.kill()
        left = self._directory / "left"
        shutil.copytree(self._broker.data_directory, left, ignore=NOT_KEPT)
        self._record_recovery(end, scene, left=left, destination=destination)
        if end == KILLED and DAMAGED in self._recipe.ends:
            damage(left)
            shutil.rmtree(self._broker.data_directory)
            shutil.copytree(left, self._broker.data_directory)
            self._record_recovery(DAMAGED, scene, left=left, destination=destination)

    def _record_recovery(self, end: str, scene: Scene, *, left: Path, destination: Path) -> None:
        broker = self._broker
        now_ms = int(time.time() * 1000)
        with broker, PartitionObserver(broker) as observer:
            told = [observer.observed(partition) for partition in observer.partitions()]
        recovered = self._directory / f"recovered-{end}"
        shutil.copytree(broker.data_directory, recovered, ignore=NOT_KEPT)
        RecordedDirectory(
            name=f"{self._name}-{end}",
            recorded_with=f"Apache Kafka {broker.version}",
            recorded_at_ms=now_ms,
            broker={key: BROKER_PROPERTIES[key] for key in LOG_PROPERTIES},
            topics=scene.topics,
            partitions=tuple(completed(told, kafka_jars(broker.version), recovered)),
        ).save(destination, left=left, recovered=recovered)


def _broker(recipe: Recipe, directory: Path, zookeeper: str) -> ApacheKafka:
    if recipe.has_old_formats:
        return old_format_broker(directory, zookeeper)
    return zookeeper_broker(directory, zookeeper=zookeeper, properties=recipe.broker)


def _setting(broker: ApacheKafka, name: str) -> str:
    lines = broker.configuration.read_text().splitlines()
    return next(line.removeprefix(f"{name}=") for line in lines if line.startswith(f"{name}="))


if __name__ == "__main__":
    main()
