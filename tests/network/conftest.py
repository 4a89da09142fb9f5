"""Exclusion of modules on the path of agents, which pytest must not import."""

collect_ignore = ["stacks"]
