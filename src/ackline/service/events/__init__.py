"""The journal as clients read it: pages, a stream, and summaries of sweeps."""
