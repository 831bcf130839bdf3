"""`python -m taskflow` is the command `taskflow`."""

from taskflow.cli import main

if __name__ == "__main__":
    main()
