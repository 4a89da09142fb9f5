"""The titles of the largest pages of a crawl, out of its export.

    python examples/titles.py DIR

Shows the simplest way to work with a crawl from a program: run the command,
read JSON lines.
"""

import json
import subprocess
import sys


def main() -> None:
    command = [sys.executable, "-m", "fieldmouse", "export", sys.argv[1], "--to", "-"]
    export = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    pages = [json.loads(line) for line in export.stdout.splitlines()]
    for page in sorted(pages, key=lambda page: -page["size"])[:10]:
        print(f"{page['size']:>9}  {page['title'] or page['url']}")


if __name__ == "__main__":
    main()
