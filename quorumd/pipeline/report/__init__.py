"""One self-contained HTML page: what happened in a cluster, and what a plan makes of it."""
