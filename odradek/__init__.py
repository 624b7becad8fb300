"""The package under which all code is imported.

Example: ``from odradek.protocol.records.batch import RecordBatch``.

The packages are at the top level of the repository. This folder holds the version and one symbolic
link to each package. An installed Odradek is therefore a single package, and its ``config`` or
``broker`` does not shadow a user's package of the same name.
"""

__version__ = "0.1.0.dev0"
