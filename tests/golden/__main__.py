"""Rewrite golden outputs and print what changed, field by field: `python -m tests.golden` (`make golden`).

Changed outputs are written under a higher version alone.
"""

import sys

from tests.golden.goldens import DATA, GOLDENS, RECORD, changes, record_of, recorded, write_output


def rewrite(kind: str) -> bool:
    """Write the outputs of a kind that changed; return False where the version is not raised, and nothing written."""
    golden, changed = GOLDENS[kind], dict[str, object]()
    for name, find in golden.outputs.items():
        lines = changes(kind, name, output := find())
        print("\n".join([f"{name}: {len(lines) or 'no'} changes", *(f"    {line}" for line in lines)]), flush=True)
        if lines:
            changed[name] = output
    if changed and golden.version <= recorded(kind)["version"]:
        print(f"nothing is written of the {kind}: raise VERSION = {golden.version} in {golden.place}")
        return False
    for name, output in changed.items():
        write_output(DATA / f"{name}.json", output)
    return True


if __name__ == "__main__":
    done = [rewrite(kind) for kind in GOLDENS]
    write_output(
        RECORD, {kind: record_of(kind) if ok else recorded(kind) for kind, ok in zip(GOLDENS, done, strict=True)}
    )
    sys.exit(not all(done))
