"""`python -m quorumd` is `quorumd`."""

from quorumd.cli import main

if __name__ == "__main__":
    main()
