"""``send_with_retries`` repeats a request while the coordinator is not available."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from odradek.broker.cli.groups import coordinator_retries
from odradek.broker.cli.groups.coordinator_retries import send_with_retries


class Coordinator:
    """Rejects the request for each group the given number of times."""

    def __init__(self, error, **rejections):
        self.error = error
        self.rejections = rejections
        self.requests = []

    def __call__(self, groups):
        self.requests.append(groups)
        return {group: self._future(group) for group in groups}

    def _future(self, group):
        future = Future()
        if self.rejections[group]:
            self.rejections[group] -= 1
            future.set_exception(KafkaException(KafkaError(self.error)))
        else:
            future.set_result(f"{group} it is")
        return future


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(coordinator_retries, "RETRY_BACKOFF_S", 0)


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_only_rejected_groups_are_sent_again(error):
    coordinator = Coordinator(error, a=0, b=2)
    futures = send_with_retries(coordinator, ["a", "b"], timeout_s=10)
    assert {group: future.result() for group, future in futures.items()} == {
        "a": "a it is",
        "b": "b it is",
    }
    assert coordinator.requests == [["a", "b"], ["b"], ["b"]]


def test_other_errors_are_not_retried():
    coordinator = Coordinator(KafkaError.GROUP_AUTHORIZATION_FAILED, a=1)
    assert isinstance(
        send_with_retries(coordinator, ["a"], timeout_s=10)["a"].exception(), KafkaException
    )
    assert coordinator.requests == [["a"]]


def test_last_error_is_returned_after_the_timeout():
    coordinator = Coordinator(KafkaError.NOT_COORDINATOR, a=10**9)
    assert isinstance(
        send_with_retries(coordinator, ["a"], timeout_s=0.01)["a"].exception(), KafkaException
    )


def test_no_groups_send_no_request():
    assert send_with_retries(None, [], timeout_s=1) == {}
