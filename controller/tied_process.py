"""A command that does not outlive the process that started it.

Run as a script: asks the kernel to kill this process when its parent dies, then becomes the command
given as arguments.  Only Linux can be asked; elsewhere the command merely runs, and whoever started
it must stop it.

A separate step, not ``preexec_fn``: Python 3.12 warns when a process with threads forks into
Python code.  The kernel counts the starting *thread* as the parent, so a command is to be started
from a thread that lives as long as the command should.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tied_command(command: list[str]) -> list[str]:
    """The command line that runs ``command`` tied to the calling thread."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the kernel was asked.
        if os.getppid() != int(parent):
            sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
