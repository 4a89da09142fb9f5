"""Change notifications with at-least-once delivery.

Follow one change. A poll shows that a page has changed, and its row goes into the outcome log. When a
checkpoint has made that row durable, the `Notifier` (a part of the checkpoint, see `storage/checkpoint.py`)
wakes a `ChannelSender` for each channel: command, webhook, mail, feed. The sender reads the log from its
offset, derives the changes (`storage/changes_from_outcomes.py`), drops those that the settings exclude
(`ChangeFilter`), and passes the rest to its channel as a `ChangeBatch`. After a success it moves on; after a
failure it tries again with growing pauses.

There is no queue in memory or on the disk: the pending changes are the rows of the log after
the sender's offset, and that offset is in the checkpoint. So no change is lost, and a kill repeats
the notices sent since the last checkpoint. Therefore every notice has an id that is the same each
time: the id of the change, or a hash of the ids where several changes go out together. This requires
that a notice is the same after a kill: a notice below the maximum size is sent only
when a checkpoint holds the offset where it ends.
"""

from __future__ import annotations
