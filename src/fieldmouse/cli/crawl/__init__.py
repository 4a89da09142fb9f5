"""Commands that crawl."""
