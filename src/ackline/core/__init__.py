"""Pure rules and types that every other package builds on; nothing here does I/O."""
