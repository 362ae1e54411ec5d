"""`python -m ackline` is the command `ackline`."""

from ackline.cli import main

if __name__ == "__main__":
    main()
