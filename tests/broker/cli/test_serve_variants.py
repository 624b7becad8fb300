"""``odradek serve`` shuts down and restarts without uvloop and with network threads."""

import signal

import pytest

from tests.broker.cli import test_serve
from tests.broker.cli.test_serve import test_records_survive_a_shutdown_and_a_kill
from tests.support.many_listeners import ManyListeners
from tests.support.plain_loop import WithoutUvloop

__all__ = ["test_records_survive_a_shutdown_and_a_kill"]


@pytest.fixture(autouse=True, params=[WithoutUvloop, ManyListeners])
def kind(request, monkeypatch):
    """Replace the broker class of the imported tests."""
    monkeypatch.setattr(test_serve, "BrokerProcess", request.param)


@pytest.fixture
def new_store():
    return tuple


def test_acknowledged_records_survive_sigterm_under_load(tmp_path, new_store):
    test_serve.test_acknowledged_records_survive_a_signal_under_load(
        tmp_path, new_store, signal.SIGTERM
    )
