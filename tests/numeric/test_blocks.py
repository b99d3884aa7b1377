"""Kernels that work block by block: the same result however the rows are cut, and however many threads there are."""

from __future__ import annotations

import importlib
import inspect
import threading
import tracemalloc
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from codegen.checking.array_library import array_library
from codegen.checking.sampling import Case, Shape, draw, sizes_of
from derive.language import Flag
from derive.library import load
from derive.program import Program

TARGETS = ("numpy", "torch")
LIBRARY = {program.name: program for program in load() if program.request is not None}


def functions(name: str, target: str) -> dict[str, Callable[..., Any]]:
    module = importlib.import_module(f"generated.{target}.{name}")
    return {
        key: value for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    }  # fmt: skip


def takes_workspace(function: Callable[..., Any]) -> bool:
    return "workspace" in inspect.signature(function).parameters


BLOCKED = sorted(name for name in LIBRARY if any(map(takes_workspace, functions(name, "numpy").values())))


def sample(program: Program, target: str, number: int = 5) -> tuple[list[Any], dict[str, Any]]:
    """Arrays with sizes that blocks of two and three rows do not divide, and options."""
    plain, leading, least = sizes_of(program)
    sizes = {name: max(number, least.get(name, 1)) + turn for turn, name in enumerate(plain)}
    lengths = dict.fromkeys(leading, (number,))
    flags = {str(known.name): True for known in program.all_inputs() if isinstance(known, Flag)}
    case = Case(0, Shape(sizes | dict.fromkeys(leading, number), lengths), flags, bare=False)
    values, _ = draw(program, case, seed=3)
    library = array_library(target)
    names = [str(known.name) for known in program.all_inputs()]
    arrays = [library.array(values[name]) for name in names if np.ndim(values[name]) or hasattr(values[name], "dtype")]
    options = {name: values[name] for name in names if not (np.ndim(values[name]) or hasattr(values[name], "dtype"))}
    return arrays, {**options, **flags}


def workspace(target: str, **options: Any) -> Any:
    return importlib.import_module(f"generated.{target}.workspace").Workspace(**options)


def results(name: str, target: str, space: Any, flavour: str = "", number: int = 5) -> list[np.ndarray]:
    """What the kernels of a program return, forward and backward."""
    program = LIBRARY[name]
    arrays, options = sample(program, target, number)
    known = functions(name, target)

    def call(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        return function(*arguments, **more, **({"workspace": space} if takes_workspace(function) else {}))

    if f"{name}{flavour}_backward" not in known:
        returned = call(known[name], *arrays, **options)
        return [np.asarray(value) for value in (returned if isinstance(returned, tuple) else (returned,))]
    output, saved = call(known[f"{name}{flavour}_forward"], *arrays, **options)
    upstream = np.random.default_rng(7).standard_normal(tuple(output.shape))
    gradients = call(known[f"{name}{flavour}_backward"], array_library(target).array(upstream), saved)
    return [np.asarray(value) for value in (output, *gradients)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BLOCKED)
def test_the_cut_into_blocks_does_not_show(name: str, target: str) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    whole = results(name, target, workspace(target, rows=1000, threads=1))
    for rows in (1, 2, 3):
        for one, other in zip(whole, results(name, target, workspace(target, rows=rows, threads=1)), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BLOCKED)
def test_the_number_of_threads_does_not_show_in_any_bit(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    monkeypatch.setattr(f"generated.{target}.workspace.SMALL", 0)
    one = results(name, target, workspace(target, rows=2, threads=1))
    for left, right in zip(one, results(name, target, workspace(target, rows=2, threads=3)), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("name", "number"), [("attention", 90), ("attention_biased", 60), ("log_sigmoid", 100_003)])
def test_it_does_not_show_either_where_operations_share_the_cores(name: str, number: int) -> None:
    """Small blocks are computed by PyTorch's operations on as many threads as these have."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        one, other = (results(name, "torch", workspace("torch", threads=threads), number=number) for threads in (1, 3))
    finally:
        torch.set_num_threads(before)
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


def test_every_thread_gets_its_operations_back() -> None:
    """PyTorch counts the threads of operations for each thread that calls them, and calls of several may overlap."""
    torch = pytest.importorskip("torch")
    module = importlib.import_module("generated.torch.workspace")
    inside, left = threading.Barrier(2, timeout=60), threading.Event()
    held, after = {}, {}

    def call(name: str) -> None:
        torch.set_num_threads(2)
        with module.CORES:
            inside.wait()
            held[name] = torch.get_num_threads()
            if name == "last":
                left.wait(60)
        after[name] = torch.get_num_threads()
        left.set()

    threads = [threading.Thread(target=call, args=(name,)) for name in ("first", "last")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == {"first": 1, "last": 1}
    assert after == {"first": 2, "last": 2}
    assert module.pool(2).submit(torch.get_num_threads).result() == 1


@pytest.mark.parametrize(("length", "shared"), [(48, 3), (400, 1)])
def test_operations_outside_of_blocks_leave_the_cores_to_them(
    length: int, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that have shared an operation spin on; small blocks that threads do not share are the exception."""
    torch = pytest.importorskip("torch")
    module = importlib.import_module("generated.torch.attention_masked")
    seen: dict[str, set[int]] = {}

    def watched(name: str) -> Callable[..., Any]:
        function = vars(module)[name]

        def watch(*arguments: Any, **options: Any) -> Any:
            seen.setdefault(name, set()).add(torch.get_num_threads())
            return function(*arguments, **options)

        return watch

    for name in ("largest", "or_one", "incoming"):
        monkeypatch.setattr(module, name, watched(name))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        monkeypatch.setattr("generated.torch.workspace.TOGETHER", 100**2)
        arrays = [torch.ones(2, length, 4) for _ in range(3)]
        mask = torch.ones(length, length, dtype=torch.bool)
        result, saved = module.attention_masked_forward(*arrays, mask)
        module.attention_masked_backward(result, saved)
        assert torch.get_num_threads() == 3
        with pytest.raises(ValueError, match="dO"):
            module.attention_masked_backward(result[:1, :1], saved)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == {"largest": {1}, "incoming": {1}, "or_one": {shared}}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in BLOCKED if f"{name}_lean_forward" in functions(name, "numpy")])
def test_the_lean_schedule_gives_the_same(name: str, target: str) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    for rows in (2, 1000):
        plain = results(name, target, workspace(target, rows=rows))
        for one, other in zip(plain, results(name, target, workspace(target, rows=rows), "_lean"), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name", [name for name in sorted(LIBRARY) if f"{name}_value_and_gradient" in functions(name, "numpy")]
)
def test_value_and_gradient_together_are_the_two_kernels_one_after_the_other(name: str, target: str) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    arrays, options = sample(LIBRARY[name], target)
    known = functions(name, target)
    value, saved = known[f"{name}_forward"](*arrays, **options)
    gradients = known[f"{name}_backward"](array_library(target).array(1.0), saved)
    together = known[f"{name}_value_and_gradient"](*arrays, **options)
    for one, other in zip((value, *gradients), together, strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-10, atol=1e-12)


def test_backward_uses_the_blocks_of_forward() -> None:
    """Of the saved probabilities only what is visible to a block is written; no other cut may read them."""
    arrays, options = sample(LIBRARY["attention"], "numpy", 7)
    known = functions("attention", "numpy")
    output, saved = known["attention_forward"](*arrays, **options, workspace=workspace("numpy", rows=1))
    upstream = np.ones_like(output)
    one = known["attention_backward"](upstream, saved, workspace=workspace("numpy", rows=4))
    output, saved = known["attention_forward"](*arrays, **options, workspace=workspace("numpy", rows=4))
    for left, right in zip(one, known["attention_backward"](upstream, saved), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BLOCKED)
def test_each_loop_may_have_blocks_of_its_own_height(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one loop leaves unwritten goes by its own blocks, whatever the loops between it and the reader have."""
    if target == "torch":
        pytest.importorskip("torch")
    whole = results(name, target, workspace(target, rows=1000, threads=1))
    space = workspace(target, threads=1)
    heights, empty = count(1), type(space).empty

    def unset(shape: tuple[int, ...], *kind: Any) -> Any:
        made = empty(space, shape, *kind)
        made[...] = np.nan
        return made

    monkeypatch.setattr(space, "rows", lambda *_sizes, **_kinds: next(heights))
    monkeypatch.setattr(space, "empty", unset)
    for one, other in zip(whole, results(name, target, space), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


def test_the_lean_schedule_needs_memory_that_grows_with_the_sequence_not_with_its_square() -> None:
    known = functions("attention", "numpy")

    def peak(length: int) -> int:
        arrays = [np.random.default_rng(0).standard_normal((1, length, 16)).astype(np.float32) for _ in range(3)]
        tracemalloc.start()
        output, saved = known["attention_lean_forward"](*arrays, causal=True, workspace=workspace("numpy", threads=1))
        known["attention_lean_backward"](output, saved, workspace=workspace("numpy", threads=1))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(2048) < 8 * 2048 * 2048 / 2
    assert peak(4096) < 3 * peak(2048)


@pytest.mark.parametrize("options", [{"threads": 0}, {"rows": 0}])
def test_a_workspace_refuses_what_is_no_number_of_threads_or_rows(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"expected at least 1, found 0"):
        workspace("numpy", **options)


def names_of(name: str, target: str) -> set[str]:
    return set(vars(importlib.import_module(f"generated.{target}.{name}")))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in BLOCKED if "bounded" in names_of(name, "numpy")])
def test_below_the_bound_the_row_maximum_does_not_show(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    asked: list[float] = []

    def answer(taken: bool) -> Callable[..., bool]:
        return lambda limit, _dtype: bool(asked.append(limit)) or taken

    found = {}
    for taken in (True, False):
        monkeypatch.setattr(f"generated.{target}.{name}.bounded", answer(taken))
        found[taken] = results(name, target, workspace(target, rows=2))
    assert asked
    assert all(0 < limit < 1e3 for limit in asked)
    for one, other in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_large_logits_take_the_path_with_the_maximum(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("generated.numpy.attention")
    bounded, taken = module.bounded, []
    monkeypatch.setattr(module, "bounded", lambda *given: taken.append(bounded(*given)) or taken[-1])
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 9, 4)).astype(np.float32)
    output, _ = module.attention_forward(scale * q, k, v, causal=True)
    logits = scale * q.astype(float) @ k.astype(float).swapaxes(-1, -2) / 2
    logits[:, np.arange(9)[:, None] < np.arange(9)] = -np.inf
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(output, weights / weights.sum(-1, keepdims=True) @ v, rtol=1e-3, atol=1e-4)
    assert taken == [scale == 1.0]
