"""Transaction coordinator scenes, each with its own virtual event loop."""

import pytest

from tests.support.transaction_scene import TransactionScene, scene

__all__ = ["scene"]


@pytest.fixture
def new_scene():
    scenes = []

    def make(**settings):
        new = TransactionScene(**settings)
        scenes.append(new)
        return new

    yield make
    for each in scenes:
        each.close()
