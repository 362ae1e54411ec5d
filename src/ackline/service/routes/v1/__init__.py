"""The whole surface, as resources."""
