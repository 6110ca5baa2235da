"""Settings of a process of its own, the command line's or a worker's: never made at import."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt: from which size on freed memory is given back, and a block is mapped by itself."""

KEPT = 2**30


def one_thread() -> None:
    """Set torch to one thread, and keep freed memory.

    Small models train fastest on one thread a process; two on busy cores are tens of times slower.
    """
    import torch

    torch.set_num_threads(1)
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Keep freed memory for the next tensor, where the C library is glibc.

    What is given back to the system is filled with zeros by it before the next tensor: a tenth to a quarter of the time
    of edited passes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT)
        mallopt(M_TRIM_THRESHOLD, KEPT)
