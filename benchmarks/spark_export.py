"""Exports a log directory to Parquet with Spark, for comparison with ``odradek scan``.

python benchmarks/spark_export.py DIRECTORY COLUMNS FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from spark_session import create_two_core_session


def main() -> None:
    directory, columns, folder = sys.argv[1:]
    session = create_two_core_session()
    rows = session.read.format("odradek").option("columns", columns).load(directory)
    rows.write.mode("overwrite").parquet(folder)
    session.stop()


if __name__ == "__main__":
    main()
