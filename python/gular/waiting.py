"""Waits for what threads of Rust make, and calls functions of the user meanwhile.

They are called here, in the thread that waits: an exception, Ctrl-C and the end of the interpreter
find nothing but frames of Python.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional

#: Seconds before a line is told, and between two. Short waits need none.
_BETWEEN_LINES = 1.0


class Lines:
    """Calls ``tell`` with each new line, but not too often."""

    def __init__(self, tell: Optional[Callable[[str], Any]]) -> None:
        self._tell, self._last, self._next = tell, "", time.monotonic() + _BETWEEN_LINES

    def say(self, line: Optional[str]) -> None:
        if self._tell is None or not line or line == self._last or time.monotonic() < self._next:
            return
        self._tell(line)
        self._last, self._next = line, time.monotonic() + _BETWEEN_LINES


def made(making: Any, tell: Optional[Callable[[str], Any]] = None, asked: Optional[Callable[..., Any]] = None) -> Any:
    """What ``making`` makes; ``asked`` says of a sample's facts whether it is used."""
    lines = Lines(tell)
    try:
        while True:
            found = making.wait()
            if isinstance(found, tuple):
                return found[0]
            if isinstance(found, list) and asked is not None:
                making.answer([bool(asked(*facts)) for facts in found])
            else:
                lines.say(found)
    finally:
        making.end()
