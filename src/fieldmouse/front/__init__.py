"""The front door: what `import fieldmouse` offers, and what the command is made of.

A crawl begins as words: keywords in Python, options in a terminal. `asking` turns them
into settings, and `plan` finds everything that is wrong with them before anything is
made. `run` carries a plan out in the thread that calls it: the command does so in its
main thread, with signals, a loop and a garbage collector of its choice; the library in
a thread of its own.
"""

from __future__ import annotations

from fieldmouse.front.plan import Plan, plan, plan_anew, plan_to_resume
from fieldmouse.front.run import run

__all__ = ["Plan", "plan", "plan_anew", "plan_to_resume", "run"]
