"""WARC files, their CDXJ index, and deduplication."""
