"""A coordinator that is not there yet is asked again."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from odradek.broker.cli.groups import coordinator
from odradek.broker.cli.groups.coordinator import answers


class Coordinator:
    """Refuses each group so many times."""

    def __init__(self, error, **refusals):
        self.error = error
        self.refusals = refusals
        self.asked = []

    def __call__(self, groups):
        self.asked.append(groups)
        return {group: self._future(group) for group in groups}

    def _future(self, group):
        future = Future()
        if self.refusals[group]:
            self.refusals[group] -= 1
            future.set_exception(KafkaException(KafkaError(self.error)))
        else:
            future.set_result(f"{group} it is")
        return future


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(coordinator, "PAUSE_S", 0)


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_only_the_groups_that_were_refused_are_asked_about_again(error):
    ask = Coordinator(error, a=0, b=2)
    futures = answers(ask, ["a", "b"], timeout_s=10)
    assert {group: future.result() for group, future in futures.items()} == {
        "a": "a it is",
        "b": "b it is",
    }
    assert ask.asked == [["a", "b"], ["b"], ["b"]]


def test_another_refusal_is_final():
    ask = Coordinator(KafkaError.GROUP_AUTHORIZATION_FAILED, a=1)
    assert isinstance(answers(ask, ["a"], timeout_s=10)["a"].exception(), KafkaException)
    assert ask.asked == [["a"]]


def test_when_the_time_is_up_the_refusal_is_told():
    ask = Coordinator(KafkaError.NOT_COORDINATOR, a=10**9)
    assert isinstance(answers(ask, ["a"], timeout_s=0.01)["a"].exception(), KafkaException)


def test_nothing_is_asked_about_no_groups():
    assert answers(None, [], timeout_s=1) == {}
