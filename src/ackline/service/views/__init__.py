"""What pages show, computed: overview, job summaries, error groups, statistics of the lake."""
