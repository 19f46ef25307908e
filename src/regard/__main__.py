"""`python -m regard` is `regard`; `torchrun -m regard train …` works too."""

from regard.cli import main

if __name__ == "__main__":
    main()
