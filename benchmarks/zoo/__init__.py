"""What graph capture does on real models: graphs, breaks, values, tracing time.

    python -m benchmarks.zoo --engine stator:compile --only Llama,toy. --eval-only
    python -m benchmarks.zoo --engines torch,stator:compile --out both.json

``cases/`` holds the models as tables, ``measure`` runs one of them, ``server`` keeps a process
per engine that forks one child per case, ``report`` makes the tables. See docs/benchmarks.md.
"""

import os

# Before torch is imported: one thread, so that CPU time is comparable, and no network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
