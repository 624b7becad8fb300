"""A coordinator for a test, on a loop of its own."""

import pytest

from tests.support.transaction_scene import TransactionScene


@pytest.fixture
def new_scene():
    scenes = []

    def make(**settings):
        scene = TransactionScene(**settings)
        scenes.append(scene)
        return scene

    yield make
    for scene in scenes:
        scene.close()


@pytest.fixture
def scene(new_scene):
    return new_scene()
