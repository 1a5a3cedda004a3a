"""`python -m refbench` is `refbench`."""

from refbench.cli.app import main

if __name__ == "__main__":
    main()
