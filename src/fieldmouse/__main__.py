"""`python -m fieldmouse`: the command line, where no script is installed."""

from fieldmouse.cli import main

if __name__ == "__main__":
    main()
