"""The table of APIs in docs/protocol.md.

python -m odradek.protocol.reference > docs/protocol.md
"""

import sys

from odradek.protocol.registry import Api, all_apis

HEAD = """\
# The APIs

Made by `python -m odradek.protocol.reference` from the declarations in `protocol/api/`; a test
keeps it fresh.  *Versions* have a schema.  *Flexible* ones have compact lengths and tagged fields.
*Unstable* ones are known but never advertised.

| key | API | versions | flexible | unstable | declared in |
|--:|---|---|---|---|---|
"""


def as_markdown() -> str:
    return HEAD + "".join(_table_row(api) for api in all_apis())


def _table_row(api: Api) -> str:
    path = f"protocol/api/{api.key.name.lower()}.py"
    unstable = api.request.__schema__.unstable
    return (
        f"| {api.key.value} | {api.name} | {api.versions} | {api.flexible} | {unstable} "
        f"| [{api.key.name.lower()}.py](../{path}) |\n"
    )


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
