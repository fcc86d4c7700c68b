"""The one exception that a user's mistake raises."""


class UserError(SystemExit, ValueError):
    """A user's mistake, told in one line: what is wrong, where, and what to do.

    Caught in Python it is a ``ValueError``. Uncaught it ends a command as ``SystemExit`` does: the message goes to
    stderr and the exit status is 1, without a traceback, also inside ``fairseq-train`` and its sisters.
    """

    def __init__(self, message: str):
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.code)
