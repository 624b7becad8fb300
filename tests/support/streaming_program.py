"""A streaming query in a process of its own, to be killed.

python -m tests.support.streaming_program DIRECTORY OUTPUT CHECKPOINT OPTIONS-AS-JSON
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.support.spark_session import new_session


def main() -> None:
    directory, output, checkpoint, options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        session = new_session(Path(folder))
        stream = session.readStream.format("odradek").options(**json.loads(options))
        writing = stream.option("maxOffsetsPerTrigger", "20").load(directory).writeStream
        (
            writing.format("parquet")
            .option("checkpointLocation", checkpoint)
            .option("path", output)
            .start()
            .awaitTermination()
        )


if __name__ == "__main__":
    main()
