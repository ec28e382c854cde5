"""`python -m trilith` is the `trilith` command."""

from trilith.cli import main

if __name__ == "__main__":
    main()
