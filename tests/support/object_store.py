"""An object store on loopback: as much of S3 as reading needs, over the files of a directory.

    GET /bucket?list-type=2&prefix=...&delimiter=/    names
    HEAD, GET /bucket/KEY                             objects, and ranges of them

It believes whatever credentials it is shown.

Owner: the thread that started it; requests have threads of their own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@contextmanager
def object_store(root: Path) -> Iterator[ObjectStore]:
    """The files below ``root`` are the objects of its only bucket."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.root = root
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield ObjectStore(server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ObjectStore:
    def __init__(self, port: int) -> None:
        self._port = port

    def uri(self, key: str) -> str:
        settings = f"scheme=http&region=nowhere&endpoint_override=127.0.0.1%3A{self._port}"
        return f"s3://name:secret@{BUCKET}/{key}?{settings}"


class _Server(ThreadingHTTPServer):
    root: Path
    daemon_threads = True  # clients keep their connections


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and content are two writes: the second would wait
    server: _Server

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if "list-type" in (query := parse_qs(parts.query)):
            prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
            self._send(200, self._listed(prefix, delimiter).encode())
        else:
            self._answer()

    def _answer(self) -> None:
        path = self.server.root / unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")
        if not path.is_file():
            self._send(404, b"")
            return
        content = path.read_bytes()
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        if found is None:
            self._send(200, content)
        else:
            first, last = int(found[1]), min(int(found[2]), len(content) - 1)
            self._send(206, content[first : last + 1], range_=f"{first}-{last}/{len(content)}")

    def _listed(self, prefix: str, delimiter: str) -> str:
        keys = sorted(
            str(path.relative_to(self.server.root))
            for path in self.server.root.rglob("*")
            if path.is_file()
        )
        objects, folders = [], dict[str, None]()
        for key in (key for key in keys if key.startswith(prefix)):
            name, slash, _ = key[len(prefix) :].partition(delimiter or "\0")
            if slash:
                folders[prefix + name + slash] = None
            else:
                size = (self.server.root / key).stat().st_size
                objects.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        prefixes = [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders
        ]
        count = len(objects) + len(folders)
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<Name>{BUCKET}</Name><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>"
            f"{''.join(objects)}{''.join(prefixes)}</ListBucketResult>"
        )

    def _send(self, status: int, content: bytes, *, range_: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        self.send_header("ETag", '"0"')
        if range_ is not None:
            self.send_header("Content-Range", f"bytes {range_}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
