"""Peak memory of a run beside its arguments and results, each case in a process of its own.

What NumPy allocates is counted exactly by tracemalloc, which NumPy reports to. For torch, which does not, it is the
growth of the resident set, true to a few megabytes: the process resets its high-water mark, where the system lets it,
after a small run has started pools and loaded code. Results are what the caller gets, the value and the gradients; what
is saved between forward and backward, and a workspace, count as extra. A megabyte is 10^6 bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import multiprocessing
import os
import re
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.kernels import has_schedule
from benchmarks.timing import Note, Row, Run, as_numpy

MEGABYTE = 1e6
OURS = ("numpy", "numpy-lean", "torch")


@dataclass(frozen=True, kw_only=True)
class Peak(Row):
    """The peak of one run, and what it is allowed to be, if anything is claimed.

    The time is what the run took. Of a run of others, the target is nothing of ours: it stands as its own peer.
    """

    extra_mb: float
    results_mb: float
    limit_mb: float | None = None


@dataclass(frozen=True)
class Case:
    """A run by the name of the function that makes it here, and that function's sizes: what a process is sent."""

    case: str
    run: str
    make: str
    sizes: tuple[Any, ...]
    small: tuple[Any, ...]
    limit_mb: float | None = None


def cases(quick: bool, note: Note) -> Iterator[Case]:
    """The cases that can run here."""
    torch = importlib.util.find_spec("torch") is not None
    lengths = (4096,) if quick else (4096, 32768)
    for length in lengths:
        case = f"attention 1 x {length}, causal"
        sizes: tuple[int, ...] = (1, length, True)
        small: tuple[int, ...] = (1, 64, True)
        if has_schedule("attention", "numpy", "lean"):
            yield Case(case, "numpy-lean", "lean", sizes, small, 32.0 if length == 4096 else 1000.0)
        elif length == lengths[0]:
            note("there is no lean attention kernel; left out: numpy-lean")
        if torch:
            yield Case(case, "sdpa", "fused_attention", sizes, small)
        if length == 4096:
            yield Case(case, "numpy", "fast", sizes, small)
            yield Case(case, "numpy.textbook", "textbook_attention", sizes, small)
            if torch:
                yield Case(case, "torch", "torch_attention", sizes, small)
    rows = 1024 if quick else 4096
    case, sizes, small = f"cross_entropy {rows} x 32000", (rows, 32_000), (16, 32)
    yield Case(case, "numpy", "cross_entropy", (*sizes, "numpy"), (*small, "numpy"), 16.0)
    if torch:
        yield Case(case, "torch", "cross_entropy", (*sizes, "torch"), (*small, "torch"), 16.0)
        yield Case(case, "F.cross_entropy", "fused_cross_entropy", sizes, small)


def measure(quick: bool, note: Note) -> list[Peak]:
    """The peak of each case."""
    context = multiprocessing.get_context("spawn")
    rows = []
    for case in cases(quick, note):
        with ProcessPoolExecutor(1, mp_context=context) as process:
            rows.append(process.submit(peak, case).result())
    return rows


def peak(case: Case) -> Peak:
    """Measures one case in this process."""
    make = RUNS[case.make]
    make(*case.small)()
    extra, results, seconds = traced(make(*case.sizes)) if "torch" not in sys.modules else resident(make(*case.sizes))
    is_ours, spent = case.run in OURS, round(1000 * seconds, 1)
    return Peak(
        case.case,
        case.run,
        peer=None if is_ours else case.run,
        ours_ms=spent if is_ours else None,
        peer_ms=None if is_ours else spent,
        extra_mb=round(extra / MEGABYTE, 2),
        results_mb=round(results / MEGABYTE, 2),
        limit_mb=case.limit_mb,
    )


def traced(run: Run) -> tuple[float, float, float]:
    """Bytes that NumPy and Python allocate at most beside the results, bytes of the results, and seconds."""
    gc.collect()
    tracemalloc.start()
    try:
        started = time.perf_counter()
        results = run()
        seconds = time.perf_counter() - started
        held = size(results)
        return tracemalloc.get_traced_memory()[1] - held, held, seconds
    finally:
        tracemalloc.stop()


def resident(run: Run) -> tuple[float, float, float]:
    """Bytes by which the resident set grows at most beside the results, bytes of the results, and seconds."""
    gc.collect()
    before = reset_high_water()
    started = time.perf_counter()
    results = run()
    seconds = time.perf_counter() - started
    held = size(results)
    return max(0.0, high_water() - before - held), held, seconds


def size(results: Sequence[Any]) -> float:
    """The bytes of the results together."""
    return float(sum(as_numpy(result).nbytes for result in results))


def reset_high_water() -> float:
    """The bytes that are resident now; from now on they are the high-water mark, if the system can reset it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what was freed before would serve the run without a trace
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return high_water()
    return status("VmRSS")


def high_water() -> float:
    """The most bytes that were resident since the last reset."""
    if os.path.exists("/proc/self/status"):
        return status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def status(name: str) -> float:
    """A line of /proc/self/status, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        found = re.search(rf"^{name}:\s*(\d+) kB", file.read(), flags=re.MULTILINE)
    return 1024.0 * float(found[1]) if found else 0.0


# The runs. Each makes its arguments and returns what computes the results.


def fast(heads: int, length: int, causal: bool) -> Run:
    """The NumPy kernels that keep the probabilities, each call with memory of its own."""
    from benchmarks import attention

    return attention.ours("numpy", attention.inputs(heads, length), causal, workspace=False)


def lean(heads: int, length: int, causal: bool) -> Run:
    """The NumPy kernels that rebuild the probabilities block by block."""
    from benchmarks import attention

    return attention.ours("numpy", attention.inputs(heads, length), causal, "lean", workspace=False)


def torch_attention(heads: int, length: int, causal: bool) -> Run:
    """The torch kernels."""
    import torch

    from benchmarks import attention

    arrays = [torch.from_numpy(array) for array in attention.inputs(heads, length)]
    return attention.ours("torch", arrays, causal, workspace=False)


def textbook_attention(heads: int, length: int, causal: bool) -> Run:
    """The formulas in whole-array NumPy."""
    from benchmarks import attention

    return attention.textbook(attention.inputs(heads, length), causal)


def fused_attention(heads: int, length: int, causal: bool) -> Run:
    """PyTorch's fused attention through autograd."""
    import torch

    from benchmarks import attention

    return attention.torch_peers(torch, attention.inputs(heads, length), causal, compiles=False)["sdpa"]


def cross_entropy(rows: int, classes: int, library: str) -> Run:
    """The kernels for the loss and its gradient."""
    from benchmarks import cross_entropy

    arrays: tuple[Any, ...] = cross_entropy.inputs(rows, classes)
    if library == "torch":
        import torch

        arrays = tuple(torch.from_numpy(array) for array in arrays)
    return cross_entropy.ours(library, *arrays, workspace=False)


def fused_cross_entropy(rows: int, classes: int) -> Run:
    """PyTorch's cross entropy through autograd."""
    import torch

    from benchmarks import cross_entropy, peers

    arrays = [torch.from_numpy(array) for array in cross_entropy.inputs(rows, classes)]
    return peers.through_autograd(torch, torch.nn.functional.cross_entropy, arrays)


RUNS: dict[str, Callable[..., Run]] = {
    run.__name__: run
    for run in (fast, lean, torch_attention, textbook_attention, fused_attention, cross_entropy, fused_cross_entropy)
}
