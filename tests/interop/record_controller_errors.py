"""Makes tests/vectors/controller_errors.json anew: what a real controller says to mistakes.

    .venv/bin/python -m tests.interop.record_controller_errors [FILE]

Each case of controller_error_cases is sent to brokers of Kafka 3.9 as it is.
"""

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.interop.controller_error_cases import Case, Group, groups
from tests.interop.controller_tree_cluster import Cluster
from tests.interop.controller_tree_scenarios import PAUSABLE
from tests.support.apache_kafka import ZooKeeper
from tests.support.controller_answers import ANSWERS, HUNG_UP, save_groups


def main() -> None:
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ANSWERS
    with tempfile.TemporaryDirectory() as scratch:
        save_groups(record(Path(scratch)), destination)


def record(directory: Path) -> list[dict[str, Any]]:
    with (
        ZooKeeper(directory) as zookeeper,
        Cluster(directory, name="errors", zookeeper=zookeeper, settings=PAUSABLE) as cluster,
    ):
        return [_recorded(cluster, group) for group in groups()]


def _recorded(cluster: Cluster, group: Group) -> dict[str, Any]:
    done = [cluster.done(planned) for planned in group.steps]
    return {
        "name": group.name,
        "steps": [{key: step[key] for key in ("operation", "arguments")} for step in done],
        "cases": [{**asdict(case), "answer": _answer(cluster, case)} for case in group.cases],
    }


def _answer(cluster: Cluster, case: Case) -> Any:
    try:
        return cluster.ask(case.to, case.api, case.version, case.request)
    except ConnectionError:
        return HUNG_UP


if __name__ == "__main__":
    main()
