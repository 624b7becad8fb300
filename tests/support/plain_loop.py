"""A broker that finds no uvloop, and so runs on asyncio's own event loop.

A module of that name, which cannot be imported, goes before the one that is installed.

A test module that imports ``broker`` from here has one such broker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess


class WithoutUvloop(BrokerProcess):
    def command(self) -> list[str]:
        hiding = self.data_dir.with_name("hiding")
        hiding.mkdir(exist_ok=True)
        (hiding / "uvloop.py").write_text("raise ImportError('hidden by the test')\n")
        paths = [str(hiding), *filter(None, [os.environ.get("PYTHONPATH")])]
        return ["env", f"PYTHONPATH={os.pathsep.join(paths)}", *super().command()]


def has_uvloop(broker: BrokerProcess) -> bool:
    """Whether a running one has loaded it; only Linux tells."""
    return "uvloop" in Path(f"/proc/{broker.pid}/maps").read_text()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithoutUvloop]:
    with WithoutUvloop(tmp_path_factory.mktemp("broker") / "logs").start() as running:
        yield running
