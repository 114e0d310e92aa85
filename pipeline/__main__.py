"""`python -m pipeline` is the `ktrial` command."""

from pipeline.cli import entry

if __name__ == "__main__":
    entry()
