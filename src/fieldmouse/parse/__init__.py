"""Parsing of responses: HTML, links, charset, language, sitemaps."""
