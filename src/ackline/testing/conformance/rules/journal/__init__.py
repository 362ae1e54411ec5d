"""Rules about the journal: its entries, its readers, and trimming."""
