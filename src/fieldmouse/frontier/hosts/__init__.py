"""Tables of hosts and sites."""
