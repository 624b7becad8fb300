"""python -m odradek.storage.dump"""

import sys

from odradek.storage.dump.command import main

if __name__ == "__main__":
    sys.exit(main())
