"""Python interface of fieldmouse, also used by the command line: plan a crawl, run it, and read its pages.

A crawl is described by keywords in Python or options in a terminal. `planning` turns them into settings and
reports every error in them before anything is created. `run` executes a plan in the calling thread: the
command does so in its main thread, with its own signal handling, event loop and garbage collection
settings; the library uses a separate thread (`BackgroundRun`), so that nothing changes for the program
around it.

Pages are delivered from the log: a checkpoint makes a page durable, `DeliveryProgress` notifies the loop, and the
loop (`page_iterator`) reads the page back from the outcome log. When the loop asks for the next page, the
page counts as delivered, which the next checkpoint records.
"""

from __future__ import annotations
