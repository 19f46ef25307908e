"""`python -m regard` and `torchrun -m regard train …` run the command `regard`."""

from regard.cli import main

if __name__ == "__main__":
    main()
