"""Read pages back out of the WARC files of a crawl, with warcio.

    python examples/payloads.py DIR

Any tool that reads WARC 1.1 can do this; nothing of fieldmouse is needed.
"""

import sys
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator


def main() -> None:
    for path in sorted(Path(sys.argv[1], "archive").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type == "response" and record.http_headers.get_statuscode() == "200":
                    payload = record.content_stream().read()
                    print(f"{len(payload):>9}  {record.rec_headers['WARC-Target-URI']}")


if __name__ == "__main__":
    main()
