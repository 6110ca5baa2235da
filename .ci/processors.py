"""Run tests as processors with fewer instructions would: python .ci/processors.py TESTS; it ends with pytest's line.

NumPy, OpenBLAS, MKL and PyTorch take other kernels there, which round otherwise and add up in another order.
"""

import os
import subprocess
import sys

AVX2, AVX512 = ("X86_V3", "AVX2"), ("X86_V4", "AVX512")
"""How the names of NumPy's features begin, under its newer and its older names."""

LOWEST = {"OPENBLAS_CORETYPE": "Prescott", "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
WITH_AVX2 = {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2"}


def features() -> list[str]:
    """Return NumPy's features above its baseline that this processor has: it refuses the names of others."""
    everywhere = {**os.environ, "NPY_DISABLE_CPU_FEATURES": ""}
    code = "import numpy; print(*numpy.show_config(mode='dicts')['SIMD Extensions'].get('found', ()))"
    asked = subprocess.run([sys.executable, "-c", code], env=everywhere, capture_output=True, text=True, check=True)
    return asked.stdout.split()


def settings(found: list[str]) -> dict[str, dict[str, str]]:
    """Return the variables of each processor that this one can stand in for, and print why others are left out."""
    lowest = {"without AVX2": {**LOWEST, "NPY_DISABLE_CPU_FEATURES": " ".join(found)}}
    if not any(name.startswith(AVX2) for name in found):
        print("with AVX2: left out, this processor has none, and Haswell's kernels would end in an illegal instruction")
        return lowest
    wide = [name for name in found if name.startswith(AVX512)]
    if not wide:
        print("without AVX-512: left out, this processor has none, and takes Haswell's kernels in `make test` itself")
        return lowest
    return {**lowest, "without AVX-512": {**WITH_AVX2, "NPY_DISABLE_CPU_FEATURES": " ".join(wide)}}


def main(tests: list[str]) -> int:
    """Run the tests on one processor after the other, and stop at the first on which one fails."""
    for name, variables in settings(features()).items():
        print(f"{name}: {' '.join(f'{key}={value!r}' for key, value in variables.items())}", flush=True)
        ended = subprocess.run([sys.executable, "-m", "pytest", *tests], env={**os.environ, **variables})
        if ended.returncode:
            return ended.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
