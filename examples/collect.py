"""Crawl a site and write a line for each page: its status, its words, where it leads.

    python examples/collect.py DIR https://example.org/ > pages.txt

Stop it with Ctrl-C, or kill it, and run it again: it goes on, and each page comes once.
"""

import sys

import fieldmouse

directory, *seeds = sys.argv[1:]
# Loopback and private addresses are refused unless you say so; here that is for trying it on a meadow.
crawl = fieldmouse.Crawl(directory, seeds=seeds, allow_private=True, settings={"storage.checkpoint": "1s"})
for page in crawl:
    print(page.status, len(page.text.split()), len(page.links), page.url, sep="\t", flush=True)
print(crawl.summary, file=sys.stderr)
