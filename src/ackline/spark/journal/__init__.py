"""The journals of a store: ranges that tasks read, and gaps."""
