"""The command line, as `stagewise` and as `python -m stagewise`, which can be interrupted from its first moment on."""

from stagewise.cli._interrupts import end_at_once


def main() -> None:
    """Run the command line."""
    end_at_once()
    from stagewise.cli.app import app

    app(prog_name="stagewise")


if __name__ == "__main__":
    main()
