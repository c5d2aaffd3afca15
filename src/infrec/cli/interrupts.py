"""Ctrl-C at any moment of the program: exit code 130, one line or silence, never a traceback.

While a command runs, the first SIGINT raises KeyboardInterrupt, so that the command can say what was saved.
Before, afterwards (while Python shuts down), and after a first one the process ends at once: nothing is being
written then but what appears whole or not at all. Modules that are being imported may swallow an exception or
make another one of it; that is why `end` is asked, and not the exception.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130
_raises, _came, _code = False, False, INTERRUPTED


def install() -> None:
    """For the program alone: a library leaves signals as they are, and so does one told to ignore them."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle)
        sys.unraisablehook = _unraisable


def begin() -> None:
    """A command runs from here on."""
    global _raises, _came
    _raises, _came = True, False


def end(code: int = INTERRUPTED) -> bool:
    """It has ended, or is being ended: whoever interrupts now gets this exit code. Whether somebody did."""
    global _raises, _code
    _raises, _code = False, code
    return _came


def _handle(*_: object) -> None:
    global _raises, _came
    if not _raises:
        os._exit(_code)
    _raises, _came = False, True
    raise KeyboardInterrupt


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Where Python can only report an exception (in a callback, in `__del__`): an interrupt still ends it."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(unraisable)
