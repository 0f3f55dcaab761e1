"""How long decoding takes: `python -m tests.bytecode.bench_decode`."""

import sys
from time import perf_counter

from stator.bytecode import decode
from tests.bytecode.corpus import stdlib_code


def main(repeats: int = 5) -> None:
    codes = stdlib_code()
    units = sum(len(code.co_code) // 2 for code in codes)
    instructions = sum(len(decode(code).instructions) for code in codes)
    times = []
    for _ in range(repeats):
        start = perf_counter()
        for code in codes:
            decode(code)
        times.append(perf_counter() - start)
    best = min(times)
    print(f"Python {sys.version.split()[0]}: {len(codes)} code objects, {units} code units")
    print(f"{best / units * 1e6:.3f} microseconds per unit")
    print(f"{best / instructions * 1e6:.3f} microseconds per instruction")
    print(f"{best / len(codes) * 1e6:.1f} microseconds per code object")


if __name__ == "__main__":
    main()
