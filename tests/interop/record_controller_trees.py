"""Makes the recordings below tests/vectors/zookeeper anew: the trees that real controllers write.

    .venv/bin/python -m tests.interop.record_controller_trees [NAME...]

Each scenario of controller_tree_scenarios is done by brokers of its own, step by step.
"""

import sys
import tempfile
from pathlib import Path

from tests.interop.controller_tree_cluster import Cluster
from tests.interop.controller_tree_scenarios import SCENARIOS
from tests.support.apache_kafka import ZooKeeper
from tests.support.recorded_trees import Recording


def main() -> None:
    for name in sys.argv[1:] or SCENARIOS:
        with tempfile.TemporaryDirectory() as scratch:
            record(name, Path(scratch)).save()


def record(name: str, directory: Path, *, steps: int | None = None) -> Recording:
    """All of its steps, or that many."""
    scenario = SCENARIOS[name]
    with (
        ZooKeeper(directory) as zookeeper,
        Cluster(directory, name=name, zookeeper=zookeeper, settings=scenario.settings) as cluster,
    ):
        lines = [cluster.done(planned) for planned in scenario.steps[:steps]]
    return Recording(name, scenario.settings, lines)


if __name__ == "__main__":
    main()
