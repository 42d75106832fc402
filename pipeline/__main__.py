"""`python -m pipeline` is `rankbeam`."""

from .cli import command

if __name__ == "__main__":
    command()
