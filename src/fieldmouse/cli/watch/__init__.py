"""Commands that watch pages for changes."""
