"""Golden tests of the formats and interfaces that must not change by accident.

The tests compare what the code does with the files in `tests/data/fence`. They find structs, enums and
commands by walking the packages, so they survive renamed and moved modules and classes. A changed file
name, JSON key, Redis key, enum value, struct field, option or setting fails a test.

To change a contract on purpose, write the golden files anew, and review the difference in git:

    FENCE_WRITE=1 .venv/bin/python -m pytest tests/formats

Most golden files are lower bounds: whatever is listed there must still exist, and more is allowed. Writing
anew drops entries that are gone, so a deleted line in the diff is a broken contract. The stored crawls are
not written anew in that way: `tests/formats/make_crawls.py` made them, and explains when to make more.
"""
