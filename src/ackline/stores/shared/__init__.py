"""What every store computes alike; a store itself only reads and writes."""
