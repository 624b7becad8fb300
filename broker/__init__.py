"""The daemon: sockets, router, replica manager, coordinators, command line.

Nothing is here yet: it follows the controller.
"""
