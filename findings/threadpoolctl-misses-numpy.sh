#!/usr/bin/env bash
# A limit of threads by threadpoolctl 3.4.0 leaves numpy 2.4.6's wheel its threads, without a word.
# Guess: threadpool_limits(1) bounds the BLAS of any numpy, and one that it does not know is warned of.
# Seen: no library is found, nothing is limited, nothing is raised or warned; 3.5.0 finds and limits it.
# Met by: who limits threads in processes beside a training, where an older threadpoolctl is pinned: each process keeps a
#   thread for each core, and small products take several times as long.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
cd "$work"
cat > limited.py <<'EOF'
import ctypes
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

(path,) = (Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas*")
library = ctypes.CDLL(str(path))
library.scipy_openblas_set_num_threads64_(2)
with threadpool_limits(1, user_api="blas"):
    print(len(threadpool_info()), library.scipy_openblas_get_num_threads64_())
EOF
seen=""
for version in 3.4.0 3.5.0; do
  "$work/venv/bin/pip" install --quiet numpy==2.4.6 "threadpoolctl==$version"
  seen="$seen $version: $("$work/venv/bin/python" limited.py);"
done
expected=" 3.4.0: 0 2; 3.5.0: 1 1;"
printf 'libraries found, threads within a limit of one\nexpected%s\nseen    %s\n' "$expected" "$seen"
[ "$seen" = "$expected" ]
