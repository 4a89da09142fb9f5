"""An agent's side of the cluster."""
