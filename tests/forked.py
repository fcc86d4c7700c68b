"""fairseq's and this project's commands for shell scripts, forked from a process that has imported fairseq already.

A folder, first on the PATH, has stand-ins for ``python``, ``fairseq-train`` and others: each sends its arguments,
environment, folder and files to a server, which forks a process for the real command. This saves seconds of imports.
"""

import json
import logging
import multiprocessing
import os
import runpy
import shlex
import signal
import socket
import sys
from pathlib import Path
from unittest import mock

COMMANDS = {
    **{f"fairseq-{name}": f"fairseq_cli.{name}" for name in ("train", "generate", "interactive", "preprocess")},
    "resmlp-mt": "resmlp_mt.cli",
    "torchrun": "torch.distributed.run",
}
STREAMS = ("stdin", "stdout", "stderr")
STAND_IN = """
import json, os, signal, socket, sys
address, name, *arguments = sys.argv[1:]
server = socket.socket(socket.AF_UNIX)
server.connect(address)
socket.send_fds(server, [b"."], [0, 1, 2])
server.sendall(json.dumps([name, arguments, dict(os.environ), os.getcwd()]).encode())
server.shutdown(socket.SHUT_WR)
status = int(server.recv(9))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""

server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload([
    "fairseq.trainer", "fairseq.tasks.translation", "sacrebleu", "sacremoses",
    "torch._dynamo",  # the first optimizer of a process imports it, for seconds
    "preloaded",
])  # fmt: skip


def fork(function, *arguments):
    """Start a process that calls a function, forked from one that has imported these modules."""
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # where preloaded.py is found
        process = server.Process(target=function, args=arguments)
        process.start()
    multiprocessing.process._children.discard(process)  # else a start in another thread may read its status first
    return process


class Commands:
    """A folder of stand-ins, and their server process."""

    def __init__(self, folder: Path):
        self.folder = folder
        address = str(folder / "socket")
        (folder / "stand_in.py").write_text(STAND_IN)
        start = ("exec", sys.executable, "-IS", str(folder / "stand_in.py"), address)
        for name in ("python", *COMMANDS):
            (folder / name).write_text(f'#!/bin/bash\n{shlex.join(start)} {name} "$@"\n')
            (folder / name).chmod(0o755)
        listening, ready = multiprocessing.Pipe(duplex=False)
        self.process = fork(_serve, address, ready)
        ready.close()
        listening.recv()

    def environment(self, **variables: object) -> dict[str, str]:
        """Return the environment of the tests, with the stand-ins first on its PATH, and more variables."""
        path = f"{self.folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, **{name: str(value) for name, value in variables.items()}}

    def close(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(address, ready):
    """Fork a process for each connection; it forks another one for the command, and waits for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for these processes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        ready.send(True)
        while True:
            connection, _ = listener.accept()
            if os.fork():
                connection.close()
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _answer(connection)


def _answer(connection):
    _, files, *_ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as stream:
        request = json.load(stream)
    process = os.fork()
    if process == 0:
        connection.close()
        _run(files, *request)
    _, status = os.waitpid(process, 0)
    connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(files, name, arguments, environment, folder):
    for number, (file, stream, mode) in enumerate(zip(files, STREAMS, "rww", strict=True)):
        os.dup2(file, number)
        os.close(file)
        file = open(number, mode, 1 if stream == "stderr" else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, stream, file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    become(*([] if name == "python" else [COMMANDS[name]]), *arguments)


def become(main, *arguments):
    """Run a module or a script as ``python`` would, and end the process."""
    multiprocessing.set_start_method("fork", force=True)  # as in a fresh process: data-loader workers end with it
    logging.root.handlers.clear()  # so that the command sets up its own, as in a fresh process
    sys.argv = [main, *arguments]
    try:
        if main.endswith(".py"):
            runpy.run_path(main, run_name="__main__")
        else:
            runpy.run_module(main, run_name="__main__", alter_sys=True)
    except (Exception, KeyboardInterrupt):  # as the interpreter does, but multiprocessing does not
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    sys.exit()
