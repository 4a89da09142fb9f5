"""The urn game of the BUbiNG thesis: tables, figures and numbers in its text."""
