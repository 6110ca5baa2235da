"""`stagewise series suites`: known public suites."""

import json

from stagewise.cli._options import AsJson


def suites(as_json: AsJson = False) -> None:
    """List known public suites: their checkpoints, tokens a step, known faults, and where this is said."""
    from stagewise.checkpoints.suites import suites as known

    if as_json:
        print(json.dumps([suite._asdict() for suite in known()], indent=2))
        return
    for suite in known():
        tokens = f"; {suite.tokens_per_step:,} tokens a step" if suite.tokens_per_step else ""
        joined = f"; {' and '.join(filter(None, suite.join))} are one count" if suite.join else ""
        sizes = f" ({suite.sizes})" if suite.sizes else ""
        print(f"{suite.repositories}{sizes}\n  {suite.checkpoints}; seeds: {suite.seeds}{tokens}{joined}")
        print("\n".join(f"  {line}" for line in (suite.faults, suite.source) if line))
    print(
        "A checkpoint of 1B parameters has 2 GB in 16 bits, 4 GB in 32; `report` first says the size of its download."
    )
