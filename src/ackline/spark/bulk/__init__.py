"""Commands for many jobs at once: load files, export tables, redrive by a condition."""
