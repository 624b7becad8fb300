"""A socket server that echoes, in a process of its own, with as many descriptors as it is told.

    python -m tests.support.echo_server 100

prints its port, and then, for every line that it reads, its resident memory in kilobytes and its
connections; it ends with its input.
"""

import asyncio
import gc
import logging
import resource
import sys

from odradek.broker.network.socket_server import SocketServer
from odradek.broker.settings.network import NetworkSettings
from tests.support.scripted_connection import echo


def resident_kb(status):
    """``status`` is open, since nothing may be left to open it with."""
    status.seek(0)
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def serve(status):
    settings = NetworkSettings(listeners="PLAINTEXT://127.0.0.1:0", socket_listen_backlog_size=500)
    server = SocketServer(settings, echo, start_task=None)
    server.open()
    server.start_accepting()
    sys.stdout.write(f"{server.endpoints[0].port}\n")
    sys.stdout.flush()
    ended = asyncio.Event()

    def answer():
        if not sys.stdin.readline():
            ended.set()
            return
        gc.collect()
        sys.stdout.write(f"{resident_kb(status)} {len(server)}\n")
        sys.stdout.flush()

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), answer)
    await ended.wait()
    await server.stop(timeout_s=1)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(int(sys.argv[1]), hard), hard))
    with open("/proc/self/status") as status:
        asyncio.run(serve(status))
