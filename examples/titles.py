"""The titles of the largest pages of a crawl.

    python examples/titles.py DIR

Reads what is stored, also while the crawl runs.
"""

import sys

import fieldmouse


def main() -> None:
    pages = fieldmouse.open(sys.argv[1]).pages()
    for page in sorted(pages, key=lambda page: -page.size)[:10]:
        print(f"{page.size:>9}  {page.title or page.url}")


if __name__ == "__main__":
    main()
