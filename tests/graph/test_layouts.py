"""What fake tensors say of sizes, strides and memory is what the real kernels do.

The operators are those of torch's own database, with inputs that are transposed, expanded, with
gaps or channels last, and zero-size and 0-dim ones among its samples; compared are the operators
of aten that their calls and derivatives come to. A slice of the database runs here, all of it under
`STATOR_OPERATORS=all` (`make stress`).
"""

import os
import time
from typing import Final

from .operators import LAYOUTS, Comparison, database, programs, run

ALL: Final = os.environ.get("STATOR_OPERATORS") == "all"
SECONDS: Final = 25
SLICE: Final = 12  # every so manieth operator
EVERY: Final = [(name, 1) for name in LAYOUTS]
MIXED: Final = [(name, 2) for name in LAYOUTS if name != "given"]

# Where a program can't tell, or nothing has elements.
KNOWN: Final = {
    "aten.lift_fresh.default": "it makes a constant, which is known otherwise",
    "aten.lift.default": "the same",
    "aten._embedding_bag.default": "sizes of what its derivative needs, for a half",
    "aten._cdist_backward.default": "strides of a gradient without elements",
    "aten.pixel_unshuffle.default": "strides of an image without elements",
    "aten.sum.dim_IntList": "strides of a sum without elements",
    "aten.as_strided_.default": "a fake of an expanded tensor has memory for less",
}

# They change sizes or strides of an argument; the fakes follow (`addbmm_` is refused).
CHANGED: Final = {
    "aten.addbmm_.default",
    "aten.as_strided_.default",
    "aten.resize_.default",
    "aten.resize_as_.default",
    "aten.squeeze_.default",
    "aten.squeeze_.dim",
    "aten.squeeze_.dims",
    "aten.t_.default",
    "aten.transpose_.default",
    "aten.unsqueeze_.default",
}


def test_fake_kernels_lay_out_their_results_as_real_ones() -> None:
    compare = Comparison(KNOWN)
    began, done = time.monotonic(), 0
    for operator in database() if ALL else database()[::SLICE]:
        if not ALL and time.monotonic() - began > SECONDS:
            break
        layouts = EVERY + MIXED if ALL else EVERY + MIXED[:1]
        for program in programs(operator, 6 if ALL else 1, layouts):
            run(program, compare)
            compare.counts["programs"] += 1
        done += 1
    print(done, "operators,", len(compare.operators), "of aten:", dict(compare.counts))
    assert compare.counts["compared"] > (50_000 if ALL else 100)
    assert compare.changed.keys() <= CHANGED, compare.changed
    assert not compare.differences, "\n".join(f"{k}: {v}" for k, v in compare.differences.items())
