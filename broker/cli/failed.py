"""A command that failed, in a line for whoever typed it."""


class CommandFailed(Exception):
    """The message is the whole report; the exit status is 1."""
