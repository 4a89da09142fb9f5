"""What stands on the path of agents is theirs, and not pytest's to import."""

collect_ignore = ["stacks"]
