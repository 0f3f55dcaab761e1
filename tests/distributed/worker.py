"""One rank: `python -m tests.distributed.worker MODULE` runs the functions `check_…` of a module.

All ranks run all of them, in the same order. What became of them is written into the folder
RESULTS after each one.
"""

import faulthandler
import importlib
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

import stator


def names_of(module: str) -> list[str]:
    """The checks of a module, in its order."""
    found = importlib.import_module(f"tests.distributed.{module}")
    return [name for name in vars(found) if name.startswith("check_")]


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(max(1.0, float(os.environ["LIMIT"]) - 5))  # where it hangs
    name = sys.argv[1]
    module = importlib.import_module(f"tests.distributed.{name}")
    dist.init_process_group("gloo")
    results = Path(os.environ["RESULTS"]) / f"checks{dist.get_rank()}.json"
    told: dict[str, str] = {}
    for each in names_of(name):
        stator.reset()
        try:
            getattr(module, each)()
            told[each] = "ok"
        except Exception:
            told[each] = traceback.format_exc()
        results.write_text(json.dumps(told))
        if told[each] != "ok":
            break  # the others can't know of it
    if all(each == "ok" for each in told.values()):
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
