"""Commands that read a crawl."""
