"""What Apache Kafka answered to requests to its controller, most of them mistaken.

One file, written by tests/interop/record_controller_errors.py: groups of cases, each with the steps
(see recorded_trees) that led from the group before to the cluster that the cases met.  Of error
messages it tells only whether there was one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).resolve().parents[1] / "vectors" / "controller_errors.json"

#: In place of an answer, where the broker closed the connection.
HUNG_UP = "hung up"


@dataclass(frozen=True, slots=True)
class ControllerAnswer:
    """Request and answer in the JSON of kafka_json, with the placeholders of recorded_trees.

    ``to`` is "controller", or "another" for a broker that is not.  Where a broker's epoch is asked
    for, ``<epoch of N>`` stands for that of broker N.
    """

    name: str
    to: str
    api: str
    version: int
    request: Mapping[str, Any]
    answer: Any


@dataclass(frozen=True, slots=True)
class AnsweredGroup:
    name: str
    steps: list[dict[str, Any]]  # each an operation and its arguments
    cases: list[ControllerAnswer]


def saved_groups(path: Path = ANSWERS) -> list[AnsweredGroup]:
    return [
        AnsweredGroup(
            group["name"], group["steps"], [ControllerAnswer(**case) for case in group["cases"]]
        )
        for group in json.loads(path.read_text())
    ]


def save_groups(groups: list[Mapping[str, Any]], path: Path = ANSWERS) -> None:
    """A line for each step and case."""
    shown = [
        json.dumps({"name": group["name"]})[:-1]
        + "".join(
            f',\n "{key}": [\n  ' + ",\n  ".join(map(json.dumps, group[key])) + "\n ]"
            for key in ("steps", "cases")
        )
        + "}"
        for group in groups
    ]
    path.write_text("[" + ",\n".join(shown) + "]\n")
