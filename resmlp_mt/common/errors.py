"""The exception for a user's mistakes, and how a command ends."""

import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNREACHABLE = (errno.EACCES, errno.ENAMETOOLONG)  # a file that the user named cannot be reached


class UserError(ValueError):
    """A user's mistake; the message is one line: what is wrong, where, and what to do."""


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """End a command with one line on stderr and status 1 for errors that the user can fix; after Ctrl-C, by SIGINT."""
    sys.stderr = sys.stderr or io.StringIO()  # None if closed by the shell's 2>&-: print would use stdout
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be valid text
    try:
        yield
        if sys.stdout is not None:  # None if closed by the shell's >&-
            sys.stdout.flush()
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        end_by_sigint()
    except BrokenPipeError:
        end_without_reader()
    except BrokenProcessPool:
        sys.exit("a process was killed (out of memory?): let fewer work at a time (--jobs), or on less at a time")
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "resmlp_mt":
            raise
        sys.exit(
            f"{package} is not installed for {sys.executable}: source .venv/bin/activate (scripts/setup.sh makes it), "
            "or pip install this toolkit with its extra [train]"
        )
    except OSError as error:
        if error.errno in UNREACHABLE and error.filename is not None:
            sys.exit(f"{error.filename}: cannot be reached: {error.strerror}: choose another name")
        if error.errno not in NO_ROOM:
            raise
        end_without_reader(f"output cannot be written: {error.strerror}")


def end_by_sigint() -> None:
    """End this process by SIGINT, as Ctrl-C does."""
    with contextlib.suppress(OSError, AttributeError):
        sys.stdout.flush()  # the signal ends this process without flushing
    threading.excepthook = lambda _: None  # a second Ctrl-C closes what a pool's thread still reads
    print("interrupted", file=sys.stderr, flush=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def end_without_reader(status: int | str = 1) -> None:
    """End this process when its output cannot be written any more, as when ``| head`` has ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports an error when flushing
    sys.exit(status)
