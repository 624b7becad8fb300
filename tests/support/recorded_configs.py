"""What Apache Kafka answered to requests about configurations.

One file, written by tests/interop/record_configs.py: first what stood in the broker's file, then
steps, each a request and its answer in the JSON of kafka_json.  Of error messages it tells only
whether there was one; settings bear no documentation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).resolve().parents[1] / "vectors" / "configs.json"


@dataclass(frozen=True, slots=True)
class ConfigStep:
    name: str
    api: str
    version: int
    request: Mapping[str, Any]
    answer: Mapping[str, Any] | None  # None: Kafka never answered


@dataclass(frozen=True, slots=True)
class RecordedConfigs:
    file: Mapping[str, str]
    steps: list[ConfigStep]


def saved_steps(path: Path = ANSWERS) -> RecordedConfigs:
    begin, *steps = json.loads(path.read_text())
    return RecordedConfigs(begin["file"], [ConfigStep(**step) for step in steps])


def save_steps(steps: list[dict[str, Any]], path: Path = ANSWERS) -> None:
    """A line for each."""
    path.write_text("[" + ",\n ".join(map(json.dumps, steps)) + "]\n")
