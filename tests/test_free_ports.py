"""A port that one process of a run has chosen is no other's, though nobody listens there yet."""

import subprocess
import sys

from tests.support.free_ports import free_port

ASK = "from tests.support import free_ports; print(free_ports._is_locked({port}))"


def test_a_port_is_chosen_by_one_process_only():
    port = free_port()
    asked = [sys.executable, "-c", ASK.format(port=port)]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "False\n"
    assert port not in {free_port() for _ in range(10)}
