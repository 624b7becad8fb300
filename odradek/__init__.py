"""The import name of everything here: ``from odradek.protocol.records.batch import RecordBatch``.

The packages stand at the top level of the repository; this folder holds the version and one link
to each of them, so that an installed Odradek is a single package that shadows nobody's ``config``.
"""

__version__ = "0.1.0.dev0"
