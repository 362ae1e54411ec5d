"""What all stores compute in the same way; a store itself only reads and writes."""
