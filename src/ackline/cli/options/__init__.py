"""What is typed: options, arguments and their values."""
