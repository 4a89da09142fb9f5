"""What holds for all tests: none fails because of a busy machine, the dice, or who started it.

Properties are tried on the same examples each time, so that a red run can be run
again. With FIELDMOUSE_EXPLORE set, they are tried on new ones: do so when you have
time to look at what it finds. A run that a shell has put in the background, or that
nohup protects, ignores Ctrl-C and the terminal's end, and so would all that it starts.
"""

from __future__ import annotations

import gc
import os
import signal

from hypothesis import settings

from bytecode import keep_bytecode

settings.register_profile("patient", deadline=None, derandomize="FIELDMOUSE_EXPLORE" not in os.environ)
settings.load_profile("patient")

keep_bytecode()

for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Exclude nine thousand collected tests and all imported modules from garbage collection.

    Many tests collect garbage to end the threads of a killed crawl, which took a second each otherwise.
    """
    gc.collect()
    gc.freeze()
