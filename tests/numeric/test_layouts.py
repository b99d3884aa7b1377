"""Memory: every kernel reads arrays of any layout, writes to none that it was given, and takes half precisions.

Inputs in another order in memory, reversed, or repeated without a copy give what contiguous ones give; inputs, upstream
gradients and what the forward kernel saved stay as they were. Half precisions are computed in single precision: the
result is that of float32 inputs of the same values, rounded.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from codegen.checking.sampling import Case, Shape, draw, sizes_of
from derive.language import Flag, Tensor
from derive.library import load
from derive.program import Program

torch = pytest.importorskip("torch")
LIBRARY = {program.name: program for program in load() if program.request is not None}
Arrays = dict[str, Any]


class Target:
    """The kernels of one target, on arrays of that target."""

    def __init__(self, name: str) -> None:
        self.name = name

    def array(self, value: np.ndarray) -> Any:
        # torch warns of memory that cannot be written to; it is compared afterwards instead.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.from_numpy(value) if self.name == "torch" else value

    def run(self, program: Program, arrays: Arrays, options: dict[str, Any], upstream: Any = None) -> tuple[Any, ...]:
        """Outputs, gradients and what was saved, flat; with an upstream gradient of ones where none is given."""
        module = importlib.import_module(f"generated.{self.name}.{program.name}")
        assert program.request is not None
        if not program.request.wrt:
            return flat(getattr(module, program.name)(*arrays.values(), **options))
        output, saved = getattr(module, f"{program.name}_forward")(*arrays.values(), **options)
        before = [copied(value) for value in flat(saved)]
        if upstream is None:
            upstream = torch.ones_like(output) if self.name == "torch" else np.ones_like(output)
        gradients = getattr(module, f"{program.name}_backward")(upstream, saved)
        assert all(same(a, b) for a, b in zip(before, flat(saved), strict=True)), "the saved values were modified"
        return (output, *gradients)


TARGETS = [Target("numpy"), Target("torch")]


def flat(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, tuple) else (values,)


def copied(value: Any) -> Any:
    return (
        value.clone() if isinstance(value, torch.Tensor) else np.copy(value) if isinstance(value, np.ndarray) else value
    )


def plain(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value


def same(one: Any, other: Any) -> bool:
    """Equal, where a value may be undefined memory that nobody reads."""
    if isinstance(one, (torch.Tensor, np.ndarray)):
        return bool(np.array_equal(plain(one), plain(other), equal_nan=plain(one).dtype.kind == "f"))
    return bool(one == other)


def drawn(program: Program) -> tuple[Arrays, dict[str, Any]]:
    plain_sizes, leading, least = sizes_of(program)
    sizes = {size: max(2, least.get(size, 1)) + turn for turn, size in enumerate(plain_sizes)}
    shape = Shape(sizes | dict.fromkeys(leading, 6), dict.fromkeys(leading, (2, 3)))
    flags = {str(known.name): True for known in program.all_inputs() if isinstance(known, Flag)}
    values, _ = draw(program, Case(0, shape, flags, bare=False), seed=11, attempt=1)
    names = {str(known.name) for known in program.all_inputs() if isinstance(known, Tensor)}
    return (
        {name: np.ascontiguousarray(value) for name, value in values.items() if name in names},
        {name: value for name, value in values.items() if name not in names},
    )


def transposed(value: np.ndarray) -> np.ndarray:
    """The same array with its axes the other way round in memory, and a gap between entries."""
    wide = np.zeros((*value.shape[::-1], 2), value.dtype)
    wide[..., 0] = value.T
    return wide[..., 0].T


def reversed_view(value: np.ndarray) -> np.ndarray:
    """The same array, stored from its last entry to its first."""
    turned = (slice(None, None, -1),) * value.ndim
    return value[turned].copy()[turned]


def repeated(value: np.ndarray) -> np.ndarray:
    """The array's first entry along its first and last axis, for all of them, without a copy."""
    first = value[:1, ..., :1] if value.ndim > 1 else value[:1]
    return np.broadcast_to(first, value.shape)


def shifted(value: np.ndarray) -> np.ndarray:
    """The same array, no entry of which begins at a place that its size divides."""
    moved = np.frombuffer(bytearray(value.nbytes + 1), value.dtype, value.size, offset=1).reshape(value.shape)
    moved[...] = value
    return moved


def swapped(value: np.ndarray) -> np.ndarray:
    """The same array, the bytes of each entry in the order that the machine does not have."""
    return value.astype(value.dtype.newbyteorder())


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": transposed, "reversed": reversed_view, "repeated": repeated, "shifted": shifted, "swapped": swapped,
}  # fmt: skip

LACKING = {"numpy": (), "torch": ("reversed", "shifted", "swapped")}  # what arrays of a library cannot be
CASES = [(target, layout) for target in TARGETS for layout in LAYOUTS if layout not in LACKING[target.name]]


@pytest.mark.parametrize(("target", "layout"), CASES, ids=[f"{target.name}-{layout}" for target, layout in CASES])
@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_layout(name: str, target: Target, layout: str) -> None:
    program = LIBRARY[name]
    arrays, options = drawn(program)
    views = {name: LAYOUTS[layout](value) for name, value in arrays.items()}
    contiguous = {name: np.ascontiguousarray(view, view.dtype.newbyteorder("=")) for name, view in views.items()}
    kept = {name: view.copy() for name, view in views.items()}
    expected = target.run(program, {name: target.array(value) for name, value in contiguous.items()}, options)
    upstream = None
    if program.request is not None and program.request.wrt:
        upstream = target.array(np.broadcast_to(np.float64(1), tuple(expected[0].shape)))
    for view in views.values():
        if target.name == "numpy":
            view.flags.writeable = False
    found = target.run(program, {name: target.array(value) for name, value in views.items()}, options, upstream)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(plain(one), plain(other), rtol=1e-12, atol=1e-12)
    for name, view in views.items():
        assert np.array_equal(view, kept[name]), f"the input {name} was modified"


def halves(target: Target) -> list[Any]:
    return [torch.float16, torch.bfloat16] if target.name == "torch" else [np.float16]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_half_precisions_are_computed_in_single(name: str, target: Target) -> None:
    program = LIBRARY[name]
    arrays, options = drawn(program)

    def typed(value: Any, kind: Any) -> Any:
        if value.dtype.kind != "f":
            return target.array(value)
        return torch.from_numpy(value).to(kind) if target.name == "torch" else value.astype(kind)

    def widened(value: Any) -> Any:
        if target.name == "torch":
            return value.float() if value.is_floating_point() else value
        return value.astype(np.float32) if value.dtype.kind == "f" else value

    wide = torch.float32 if target.name == "torch" else np.float32
    variables = [str(symbol.name) for symbol in program.request.wrt] if program.request is not None else []
    for kind in halves(target):
        given = {name: typed(value, kind) for name, value in arrays.items()}
        found = target.run(program, given, options)
        expected = target.run(program, {name: widened(value) for name, value in given.items()}, options)
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            number = bool(variables) and place > 0 and variables[place - 1] in options
            assert one.dtype == (wide if number else kind), f"result {place}"
            rounded = other.to(one.dtype).float().numpy() if target.name == "torch" else other.astype(one.dtype)
            np.testing.assert_array_equal(plain(widened(one)), rounded)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_each_gradient_has_the_type_of_its_array(target: Target) -> None:
    program = LIBRARY["layer_norm"]
    arrays, options = drawn(program)
    single = target.array(arrays["x"].astype(np.float32))
    x = single.half() if target.name == "torch" else single.astype(np.float16)
    weights = {name: target.array(arrays[name].astype(np.float32)) for name in ("gamma", "beta")}
    y, dx, dgamma, dbeta = target.run(program, {"x": x, **weights}, options)
    assert [value.dtype for value in (y, dx, dgamma, dbeta)] == [single.dtype, x.dtype, single.dtype, single.dtype]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", ["embedding", "token_embedding", "dropout", "addition"])
def test_upstream_gradients_may_be_whole_numbers(name: str, target: Target) -> None:
    """Where nothing is saved whose type the gradient could take: truth values would add up to 1."""
    program = LIBRARY[name]
    arrays, options = drawn(program)
    given = {name: target.array(value) for name, value in arrays.items()}
    expected = target.run(program, given, options)
    for kind in (bool, np.int8):
        found = target.run(program, given, options, target.array(np.ones(tuple(expected[0].shape), kind)))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(plain(one), plain(other), rtol=1e-6)


REFUSED = [
    ("numpy", "x", np.ones(3, np.complex128), "floating-point numbers of 16, 32 or 64 bits, found complex128"),
    ("numpy", "x", np.ones(3, np.int64), "floating-point numbers of 16, 32 or 64 bits, found int64"),
    ("torch", "x", torch.ones(3, dtype=torch.float8_e5m2), "floating-point numbers of 16, 32 or 64 bits, found "),
    ("torch", "token", torch.ones(3, dtype=torch.uint16), "integers of a type that PyTorch computes with, found "),
    ("torch", "token", torch.ones(3, dtype=torch.complex64), "integers of a type that PyTorch computes with, found "),
]
if np.dtype(np.longdouble).itemsize > 8:
    found = f"found {np.dtype(np.longdouble)}"
    REFUSED.append(("numpy", "x", np.ones(3, np.longdouble), f"floating-point numbers of 16, 32 or 64 bits, {found}"))


@pytest.mark.parametrize(("target", "name", "value", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_types_that_are_not_computed_with_are_refused(target: str, name: str, value: Any, message: str) -> None:
    """The functions of the runtime have 53 bits; wider ones came back with the digits of single precision."""
    runtime = importlib.import_module(f"generated.{target}.runtime")
    with pytest.raises(TypeError, match=f"kernel: {name}: expected {message}"):
        runtime.bind("kernel", runtime.Array(name, value, "T", into=None if name == "x" else ""))
