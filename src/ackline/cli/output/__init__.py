"""What commands print: tables, times, events, JSON documents."""
