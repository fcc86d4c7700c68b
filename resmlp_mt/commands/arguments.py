"""What the commands' options have in common, for argparse."""

import argparse
from collections.abc import Callable


def command_parser(description: str | None, epilog: str | None = None) -> argparse.ArgumentParser:
    """A parser whose help keeps the line ends of its texts."""
    return argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def positive(most: int, least: int = 1) -> Callable[[str], int]:
    """Numbers from 1, or more, to a largest one."""

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > 9 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least:,} to {most:,}")
        return int(text)

    return number
