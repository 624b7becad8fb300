"""A command that failed, in a line for whoever typed it."""

#: The exit status of a command that found what it was asked about not to be as it should.
CHECK_FAILED = 3


class CommandFailed(Exception):
    """The message is the whole report; the exit status is 1."""
