"""Take part in a transaction that the user opened on a connection of their own."""
