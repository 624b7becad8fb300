"""A command that does not outlive the process that started it.

Run as a script, it asks the kernel to kill this process when its parent dies, and then executes the
command given as arguments.  Only Linux supports this.  On other systems the command just runs, and
its parent must stop it.

This is a separate program instead of a ``preexec_fn``, because Python 3.12 warns when a process
with threads forks into Python code.  The kernel regards the starting *thread* as the parent, so
start a command from a thread that lives as long as the command should.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tied_command(command: list[str]) -> list[str]:
    """Return the command line that runs ``command`` tied to the calling thread."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the prctl call.
        if os.getppid() != int(parent):
            sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
