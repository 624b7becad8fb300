"""Spark jobs over segment files.

Nothing is here yet: they follow the broker.
"""
