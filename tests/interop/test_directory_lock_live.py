"""A log directory is either Apache Kafka's or ours, at any one time."""

from pathlib import Path

import pytest

from odradek.storage.manager.lock import DirectoryLock, DirectoryLocked
from tests.support.java_program import JavaProgram

PROGRAM = Path(__file__).parent / "java" / "DirectoryLock.java"


def test_each_refuses_what_the_other_has_taken(kafka_39_jars, tmp_path):
    with JavaProgram(kafka_39_jars, PROGRAM, str(tmp_path)) as kafka:
        ours = DirectoryLock(tmp_path)
        assert kafka.ask("take") == "refused"
        ours.release()
        assert kafka.ask("take") == "taken"
        with pytest.raises(DirectoryLocked, match=str(tmp_path)):
            DirectoryLock(tmp_path)
        assert kafka.ask("give") == "given"
        DirectoryLock(tmp_path).release()
