"""The exception for a failed command, and the exit code of a failed check."""

#: The exit code of a command that ran, and found a problem in the cluster.
CHECK_FAILED = 3


class CommandFailed(Exception):
    """The message is printed as one line on standard error; the exit code is 1."""
