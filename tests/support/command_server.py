"""`regard` in forks of one process that has imported torch and the rest already, which takes seconds each time.

    python command_server.py FOLDER

writes the executable FOLDER/regard, prints a line, and serves what that executable is asked until its own stdin is
closed. Each command runs in a process of its own, with the folder, the arguments and the streams of its caller.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import matplotlib.backends.backend_agg
import numba
import torch._dynamo  # torch's optimisers import it

import regard.runs.contract
from regard.cli import main

IMPORTED = (matplotlib.backends.backend_agg, numba, torch._dynamo, regard.runs.contract)
"""What commands import where they need it."""

CLIENT = """\
#!{python} -IS
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    words = os.fsencode("\\0".join([os.getcwd(), *sys.argv[1:]]))
    socket.send_fds(server, [words], [0, 1, 2])
    sys.exit(server.recv(1)[0])
"""


def answer(connection: socket.socket, words: list[bytes], streams: list[int]) -> NoReturn:
    """Runs a command, in a fork of the server, and sends its exit status."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.send(bytes([status % 256]))
        os._exit(0)
    connection.close()
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        os.dup2(streams[number], number)
        os.close(streams[number])
        setattr(sys, name, os.fdopen(number, mode, buffering=1 if name == "stderr" else -1, encoding="utf-8"))
    folder, *arguments = map(os.fsdecode, words)
    os.chdir(folder)
    sys.argv = ["regard", *arguments]
    main()


def reap() -> None:
    """Waits for the forks that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(folder: Path) -> None:
    """Answers commands until stdin is closed."""
    address = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        client = folder / "regard"
        client.write_text(CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
        client.chmod(0o755)
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                words, streams, *_ = socket.recv_fds(connection, 2**16, 3)
                if not os.fork():
                    listener.close()
                    answer(connection, words.split(b"\0"), streams)
                for stream in streams:
                    os.close(stream)
            reap()
    reap()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
