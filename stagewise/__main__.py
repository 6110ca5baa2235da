"""`python -m stagewise`: the command line."""

from stagewise.cli.app import app

if __name__ == "__main__":
    app(prog_name="stagewise")
