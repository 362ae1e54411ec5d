"""Reading a queue's journal: saved cursors, readers, and following what happens."""
