"""Twenty planted behaviours and twenty that never come: `python -m evidence.behaviours [STOP or START STOP]`."""

import sys

from evidence.behaviours.circuits import judged
from stagewise.words.behaviour import behaviour


def main() -> None:
    """Print each case, and how many are told rightly."""
    numbers = range(*map(int, sys.argv[1:])) if len(sys.argv) > 1 else range(20)
    heads = order = decoys = nulls = 0
    for each, planted, never in judged(numbers):
        heads, order, decoys = heads + planted.heads, order + planted.order, decoys + planted.decoys
        nulls += never.found.heads.empty
        right = "right" if planted.order else "WRONG"
        print(f"case {each}: {right}; without a part: {len(never.found.heads)} heads", flush=True)
        if not planted.order:
            print("\n".join(f"  {line}" for line in behaviour(planted.found)), flush=True)
    right = f"heads {heads}, heads and order {order}, no decoy {decoys}, none where it never comes {nulls}"
    print(f"{right}, of {len(numbers)}")


if __name__ == "__main__":
    main()
