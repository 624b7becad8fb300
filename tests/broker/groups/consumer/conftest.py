"""Group scenes with a topic of four partitions and a virtual clock."""

import pytest

from tests.support.live_group_scene import LiveGroupScene


@pytest.fixture
def new_live_scene():
    scenes = []

    def make(**settings):
        scene = LiveGroupScene({"a": 4}, **settings)
        scenes.append(scene)
        return scene

    yield make
    for scene in scenes:
        scene.close()


@pytest.fixture
def live_scene(new_live_scene):
    return new_live_scene()
