"""The torture kit: what a crawl is put through, and how it is judged.

A `Scene` is a small meadow that stays the same, with the truth about it: the
outcomes of one undisturbed crawl. A crawl is then hurt in one of many ways:

* `killing`: ended at random moments, and at chosen ones, before and after each
  sync, rename, create and unlink, by the shim that stands between it and the disk;
* `upkeep`: a web that changes, and refreshes of a crawl that are killed again and again; `versions` judges
  index, archive and ledger beside what the web was at each moment, and looks for bursts;
* `image`: a power cut. The shim's `recording` of a crawl says what was synced; from it
  every image is made that a disk may show, as strict POSIX has it;
* `damage`: each of its files flipped, cut and deleted;
* `faults`: a full disk, a broken one, no network, no DNS, a wrong clock, signals.

Afterwards it is resumed, and `judging` compares what it holds with the truth. The
`scoreboard` counts. `make torture` plays all of it; `test_*.py` a small part.
"""
