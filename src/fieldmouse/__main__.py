"""`python -m fieldmouse`: the command line without an installed script."""

from fieldmouse.cli import main

if __name__ == "__main__":
    main()
