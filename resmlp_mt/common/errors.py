"""The one exception that a user's mistake raises, and how a command ends."""

import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_WAY = (errno.EACCES, errno.ENAMETOOLONG)  # to a file that a user named


class UserError(ValueError):
    """A user's mistake, told in one line: what is wrong, where, and what to do."""


@contextlib.contextmanager
def told_in_one_line() -> Iterator[None]:
    """Let a command end in one line on stderr, with status 1, or by SIGINT after Ctrl-C, where the user decided it."""
    sys.stderr = sys.stderr or io.StringIO()  # closed by the shell's 2>&-: print would take stdout
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be valid text
    try:
        yield
        if sys.stdout is not None:  # closed by the shell's >&-
            sys.stdout.flush()
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        interrupted()
    except BrokenPipeError:
        reader_gone()
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "resmlp_mt":
            raise
        sys.exit(
            f"{package} is not installed for {sys.executable}: source .venv/bin/activate (scripts/setup.sh makes it), "
            "or pip install this toolkit with its extra [train]"
        )
    except OSError as error:
        if error.errno in NO_WAY and error.filename is not None:
            sys.exit(f"{error.filename}: cannot be reached: {error.strerror}: choose another name")
        if error.errno not in NO_ROOM:
            raise
        reader_gone(f"output cannot be written: {error.strerror}")


def interrupted() -> None:
    """End this process as Ctrl-C ends one."""
    with contextlib.suppress(OSError, AttributeError):
        sys.stdout.flush()  # the signal ends this process without it
    threading.excepthook = lambda _: None  # a second Ctrl-C closes what a pool's thread still reads
    print("interrupted", file=sys.stderr, flush=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def reader_gone(status: int | str = 1) -> None:
    """End this process where its output is not taken any more, as behind ``| head``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains as it flushes at the end
    sys.exit(status)
