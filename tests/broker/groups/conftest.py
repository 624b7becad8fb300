"""Group scenes, each with its own virtual event loop."""

import pytest

from tests.support.group_scene import GroupScene


@pytest.fixture
def new_scene():
    scenes = []

    def make(**settings):
        scene = GroupScene(**settings)
        scenes.append(scene)
        return scene

    yield make
    for scene in scenes:
        scene.close()


@pytest.fixture
def scene(new_scene):
    return new_scene()
