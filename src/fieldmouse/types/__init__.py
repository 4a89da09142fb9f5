"""Records that pass between the stages of a crawl."""
