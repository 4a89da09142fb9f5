"""Entry point that serves a meadow, a synthetic web, with options as JSON.

python -m fieldmouse.lab.meadow '{"hosts": 10, "pages": 100}'
"""

import sys

import msgspec

from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.meadow.serve import serve

if __name__ == "__main__":
    text = sys.argv[1] if len(sys.argv) > 1 else "{}"
    sys.exit(serve(msgspec.json.decode(text, type=MeadowOptions, dec_hook=lambda kind, value: kind(value))))
