"""Run rows of the bench, each in a fresh process: `python -m evidence.bench [AREA or ROW] ...`, or all."""

import concurrent.futures
import multiprocessing
import sys
from pathlib import Path

from evidence.bench.rows import FOLDER, chosen, record, run_row, table
from evidence.bench.timing import one_thread


def main(names: list[str]) -> None:
    """Run the rows, print each as it comes, and write all that were ever run in this folder."""
    one_thread()
    for name in chosen(names):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), one_thread) as pool:
            rows = pool.submit(run_row, name).result()
        record(rows)
        print(table(rows, header=False), flush=True)
    print(f"{FOLDER / 'bench.json'} and {FOLDER / 'bench.md'} are written", file=sys.stderr)


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    main(sys.argv[1:])
