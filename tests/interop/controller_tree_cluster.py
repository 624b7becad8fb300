"""Brokers of Apache Kafka 3.9 that do the steps of controller_tree_scenarios, and what they write.

A step is over when the tree is as it should be and ZooKeeper has then not written for a while.

Owner: the recording program.
"""

import json
import os
import signal
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from kazoo.client import KazooClient

from odradek.protocol.api_keys import ApiKey
from tests.interop.zookeeper_journal import Change, Journal
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, zookeeper_broker
from tests.support.batches import batch_of
from tests.support.free_ports import free_port
from tests.support.raw_answer import answer_to, without_words
from tests.support.recorded_trees import Normaliser, Tree, Write, written

TIMEOUT_S = 60
SETTLED_S = 1.5
POLL_INTERVAL_S = 0.1
PLAINTEXT = "PLAINTEXT"
NO_ERROR = 0
FAILED = ".failed"

Until = Callable[[Tree, "Cluster"], bool]


@dataclass(frozen=True, slots=True)
class Planned:
    """A step to do.

    ``until`` says when the tree shows that it has been done, which holds when nothing was written
    for ``settled_s``; the answer to a request may have no error but ``may_fail_with``.
    """

    operation: str
    arguments: Mapping[str, Any]
    until: Until
    may_fail_with: int = NO_ERROR
    settled_s: float = SETTLED_S


class Cluster(AbstractContextManager["Cluster"]):
    """A cluster in a branch of ZooKeeper's tree, and everything written to that branch."""

    def __init__(
        self, directory: Path, *, name: str, zookeeper: ZooKeeper, settings: Mapping[str, str]
    ) -> None:
        self.tree = Tree()
        self.paused: set[int] = set()
        self._running: set[int] = set()
        self._directory = directory
        self._branch = f"/{name}"
        self._address = f"{zookeeper.address}{self._branch}"
        self._settings = settings
        self._journal = Journal(zookeeper.directory / "zookeeper")
        self._normaliser = Normaliser()
        self._brokers: dict[int, ApacheKafka] = {}
        self._owners: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._outsider = KazooClient(zookeeper.address)
        self._outsider.start()

    def done(self, planned: Planned) -> dict[str, Any]:
        """The step as a line of the recording."""
        operate = getattr(self, planned.operation)
        answer = operate(**planned.arguments)
        assert set(error_codes(answer)) <= {NO_ERROR, planned.may_fail_with}, (planned, answer)
        changes = self._wait_until(planned.until, planned.settled_s)
        for change in filter(_registers, changes):
            broker = int(change.path.rpartition("/")[2])
            self._owners[change.session] = broker
            self._epochs[broker] = change.zxid
        writes = [self._normalised(change) for change in changes]
        self.tree = written(self.tree, writes)
        return {
            "operation": planned.operation,
            "arguments": planned.arguments,
            "answer": answer,
            "writes": writes,
        }

    @property
    def live(self) -> set[int]:
        """Brokers that take part: neither down nor paused."""
        return self._running - self.paused

    # Operations

    def start_broker(
        self,
        broker: int,
        rack: str | None = None,
        listeners: Sequence[str] = (PLAINTEXT,),
        protocol: str | None = None,
        log_dirs: int = 1,
    ) -> None:
        started = self._brokers[broker] = zookeeper_broker(
            self._directory,
            zookeeper=self._address,
            broker_id=broker,
            properties={
                **self._settings,
                "listener.security.protocol.map": ",".join(f"{x}:{PLAINTEXT}" for x in listeners),
                "log.dirs": ",".join(map(str, self._log_dirs(broker, log_dirs))),
                **({"broker.rack": rack} if rack else {}),
                **({"inter.broker.protocol.version": protocol} if protocol else {}),
            },
            other_listeners="".join(f",{x}://localhost:{free_port()}" for x in listeners[1:]),
        )
        started.start()
        self._running.add(broker)

    def stop_broker(self, broker: int) -> None:
        self._running.discard(broker)
        self._brokers[broker].stop()
        self._wait_until_forgotten(broker)

    def kill_broker(self, broker: int) -> None:
        self._running.discard(broker)
        self._brokers[broker].kill()
        self.paused.discard(broker)
        self._wait_until_forgotten(broker)

    def pause_broker(self, broker: int) -> None:
        self.paused.add(broker)
        os.kill(self._brokers[broker].process.pid, signal.SIGSTOP)
        for path, node in self.tree.items():
            match path.split("/"):
                case [_, "brokers", "topics", topic, "partitions", partition, "state"]:
                    if broker in node.content["isr"] and broker != node.content["leader"]:
                        self._append(node.content["leader"], topic, int(partition))

    def _append(self, leader: int, topic: str, partition: int) -> None:
        """A record, without which no follower would be behind."""
        records = b64encode(batch_of(b"news")).decode()
        topics = [{"name": topic, "partitionData": [{"index": partition, "records": records}]}]
        request = {"acks": 1, "timeoutMs": TIMEOUT_S * 1000, "topicData": topics}
        answer = answer_to(self._brokers[leader].port, ApiKey.PRODUCE, 7, request)
        assert set(error_codes(answer)) == {NO_ERROR}, answer

    def resume_broker(self, broker: int) -> None:
        self.paused.discard(broker)
        os.kill(self._brokers[broker].process.pid, signal.SIGCONT)

    def fail_log_dir(self, broker: int, partition: str) -> dict[str, list[str]]:
        """The one that holds this partition: the broker notices when it next writes a file."""
        (held,) = self._directory.glob(f"log-dirs-{broker}/*/{partition}")
        partitions = sorted(path.name for path in held.parent.iterdir() if path.is_dir())
        held.parent.rename(held.parent.with_suffix(FAILED))
        return {"partitions": partitions}

    def repair_log_dirs(self, broker: int) -> None:
        for failed in self._directory.glob(f"log-dirs-{broker}/*{FAILED}"):
            failed.rename(failed.with_suffix(""))

    def _log_dirs(self, broker: int, count: int) -> list[Path]:
        return [self._directory / f"log-dirs-{broker}" / str(number) for number in range(count)]

    def ask(self, to: int | str, api: str, version: int, request: Mapping[str, Any]) -> Any:
        """Placeholders in the request give way to what they stand for, and come back."""
        broker = self._addressed(to)
        meant = self._meant(request)
        answer = answer_to(self._brokers[broker].port, ApiKey[api], version, meant)
        told = json.dumps(without_words(answer))
        for topic_id, placeholder in self._normaliser.placeholders().items():
            told = told.replace(topic_id, placeholder)
        return json.loads(told)

    def _addressed(self, to: int | str) -> int:
        controller: int = self.tree["/controller"].content["brokerid"]
        match to:
            case "controller":
                return controller
            case "another":
                return min(self.live - {controller})
        return int(to)

    def _meant(self, request: Mapping[str, Any]) -> Any:
        told = json.dumps(request)
        for topic_id, placeholder in self._normaliser.placeholders().items():
            told = told.replace(placeholder, topic_id)
        for broker, epoch in self._epochs.items():
            told = told.replace(f'"<epoch of {broker}>"', str(epoch))
        return json.loads(told)

    def create_node(self, path: str, value: str) -> None:
        self._outsider.create(self._branch + path, value.encode())

    def delete_node(self, path: str) -> None:
        self._outsider.delete(self._branch + path)

    # What is written

    def _wait_until(self, is_so: Until, settled_s: float) -> list[Change]:
        """Everything written since the last step."""
        changes: list[Change] = []
        deadline = time.monotonic() + TIMEOUT_S
        settled_at = time.monotonic() + settled_s
        while True:
            new = self._changes_here()
            changes += new
            now = time.monotonic()
            tree = written(self.tree, [_write(change, change.value, by=None) for change in changes])
            if new or not is_so(tree, self):
                settled_at = now + settled_s
            elif now > settled_at:
                return changes
            assert now < deadline, "\n".join(f"{path} {tree[path].value}" for path in sorted(tree))
            time.sleep(POLL_INTERVAL_S)

    def _changes_here(self) -> list[Change]:
        below = f"{self._branch}/"
        return [
            replace(change, path=change.path.removeprefix(self._branch))
            for change in self._journal.new_changes()
            if change.path.startswith(below)
        ]

    def _normalised(self, change: Change) -> Write:
        value = change.value
        if value:
            value = self._normaliser.value(change.path, value)
        return _write(change, value, by=self._owners.get(change.session))

    def _wait_until_forgotten(self, broker: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self._outsider.exists(f"{self._branch}/brokers/ids/{broker}"):
            assert time.monotonic() < deadline, broker
            time.sleep(POLL_INTERVAL_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._outsider.stop()
        self._outsider.close()
        for broker in self._running:
            self._brokers[broker].kill()


def error_codes(answer: Any) -> Iterator[int]:
    """All in it, at any depth."""
    match answer:
        case dict():
            yield answer.get("errorCode", NO_ERROR)
            yield from error_codes(list(answer.values()))
        case list():
            for element in answer:
                yield from error_codes(element)


def _registers(change: Change) -> bool:
    return change.kind == "create" and change.path.startswith("/brokers/ids/")


def _write(change: Change, value: bytes | None, *, by: int | None) -> Write:
    text = None if value is None else value.decode()
    match change.kind:
        case "create":
            return ["create", change.path, text, change.is_ephemeral, by]
        case "set":
            return ["set", change.path, text, change.version, by]
    return ["delete", change.path, by]
