"""Blocks that are computed by tiles of their columns: the same result for every width, in every path of a kernel."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.checking.array_library import array_library
from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from derive.functions import logsumexp, softmax
from derive.language import Sum, dims, index, leading_index, scalar, tensor
from derive.program import Program

from .test_blocks import BLOCKED, TARGETS, functions, results, workspace

WIDTHS = (1, 2, 3, 5)
TILED = sorted(
    (name, flavour)
    for name in BLOCKED
    for flavour in ("", "_lean")
    if any(
        "workspace.tiles" in inspect.getsource(function)
        for key, function in functions(name, "numpy").items() if ("_lean" in key) == bool(flavour)
    )
)  # fmt: skip


def test_both_targets_cut_the_same_kernels() -> None:
    assert {("attention", "_lean"), ("attention", ""), ("attention_window", "_lean")} <= set(TILED)
    for target in TARGETS:
        folder = Path(__file__).parents[2] / "generated" / target
        cut = {path.stem for path in folder.glob("*.py") if "workspace.tiles" in path.read_text()}
        assert cut == {name for name, _ in TILED}


@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "flavour"), TILED)
def test_the_cut_into_tiles_does_not_show(
    name: str, flavour: str, target: str, is_bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    module = importlib.import_module(f"generated.{target}.{name}")
    if hasattr(module, "bounded"):
        monkeypatch.setattr(module, "bounded", lambda *_: is_bounded)
    elif is_bounded:
        pytest.skip("has one path")
    whole = results(name, target, workspace(target, rows=1000, columns=1000, threads=1), flavour)
    for rows, columns in ((1, 2), (2, 3), (3, 1), (1000, 2), (1000, 5)):
        space = workspace(target, rows=rows, columns=columns, threads=1)
        for one, other in zip(whole, results(name, target, space, flavour), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "flavour"), TILED)
def test_with_tiles_the_number_of_threads_does_not_show_in_any_bit(
    name: str, flavour: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    monkeypatch.setattr(f"generated.{target}.workspace.SMALL", 0)
    one, other = (
        results(name, target, workspace(target, rows=2, columns=3, threads=count), flavour) for count in (1, 3)
    )
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("causal", [True, False])
def test_scratch_memory_is_the_same_for_every_length(causal: bool) -> None:
    def scratch(length: int) -> int:
        arrays = list(np.random.default_rng(0).standard_normal((4, 1, length, 8)).astype(np.float32))
        known, space = functions("attention", "numpy"), workspace("numpy", threads=1)
        _, saved = known["attention_lean_forward"](*arrays[:3], causal=causal, workspace=space)
        known["attention_lean_backward"](arrays[3], saved, workspace=space)
        return sum(piece.size for rooms in space.rooms.values() for room in rooms for piece in room.pieces.values())

    assert scratch(3072) == scratch(6144) < 2**20


# ---------------------------------------------------------------------------------------------------------------------
# Attention by hand, in float64.


def expected(logits: np.ndarray, allowed: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
    """O, and the gradients with respect to the logits and V; a row that may see nothing is 0."""
    v, upstream = rest
    masked = np.where(allowed, logits, -np.inf)
    top = np.maximum(masked.max(-1, keepdims=True, initial=-np.inf), np.finfo(float).min)
    weights = np.where(allowed, np.exp(masked - top), 0)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1)
    output = weights @ v
    slopes = upstream @ v.swapaxes(-1, -2)
    slopes = weights * (slopes - (weights * slopes).sum(-1, keepdims=True))
    return output, slopes, weights.swapaxes(-1, -2) @ upstream


def attention(target: str, flavour: str, arrays: list[np.ndarray], upstream: np.ndarray, **options: Any) -> list[Any]:
    known, library = functions("attention", target), array_library(target)
    space = workspace(target, **{key: options.pop(key) for key in ("rows", "columns")})
    given = [library.array(value) for value in arrays]
    output, saved = known[f"attention{flavour}_forward"](*given, **options, workspace=space)
    gradients = known[f"attention{flavour}_backward"](library.array(upstream), saved, workspace=space)
    return [np.asarray(value) for value in (output, *gradients)]


@pytest.mark.parametrize("flavour", ["", "_lean"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 2e-3), (np.float64, 1e-9)])
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("causal", [True, False])
def test_logits_of_any_size(
    scale: float, causal: bool, kind: type, tolerance: float, target: str, flavour: str
) -> None:
    """The largest logit may come in any tile: first, in between or last."""
    if target == "torch":
        pytest.importorskip("torch")
    q, k, v, upstream = np.random.default_rng(0).integers(-4, 5, (4, 2, 9, 4)).astype(kind)
    q *= kind(scale)
    for turn in (1, -1):
        k = np.ascontiguousarray(k[:, ::turn])
        logits = q.astype(float) @ k.astype(float).swapaxes(-1, -2) / 2
        seen = np.arange(9)[:, None] >= np.arange(9) if causal else np.ones((9, 9), bool)
        output, slopes, dv = expected(logits, seen, v.astype(float), upstream.astype(float))
        dq, dk = slopes @ k / 2, slopes.swapaxes(-1, -2) @ q / 2
        for columns in WIDTHS:
            made = attention(target, flavour, [q, k, v], upstream, causal=causal, rows=4, columns=columns)
            for one, other in zip((output, dq, dk, dv), made, strict=True):
                assert other.dtype == kind
                np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance * max(np.abs(one).max(), 1e-30))


@pytest.mark.parametrize("flavour", ["", "_lean"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1), (2, 7), (7, 2), (0, 0)])
@pytest.mark.parametrize("causal", [True, False])
def test_sizes_at_the_edges(causal: bool, sizes: tuple[int, int], target: str, flavour: str) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    rows, columns = sizes
    draw = np.random.default_rng(0).standard_normal
    q, k, v, upstream = draw((2, rows, 3)), draw((2, columns, 3)), draw((2, columns, 5)), draw((2, rows, 5))
    seen = np.arange(rows)[:, None] >= np.arange(columns) if causal else np.ones((rows, columns), bool)
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(3)
    output, slopes, dv = expected(logits, seen, v, upstream)
    for width in (1, 2, 5):
        made = attention(target, flavour, [q, k, v], upstream, causal=causal, rows=2, columns=width)
        wanted = output, slopes @ k / np.sqrt(3), slopes.swapaxes(-1, -2) @ q / np.sqrt(3), dv
        for one, other in zip(wanted, made, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("flavour", ["", "_lean"])
@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_see_nothing_at_first_or_at_all(
    target: str, is_bounded: bool, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running maximum is -inf until a key is seen: exp(-inf - -inf) must not be met."""
    if target == "torch":
        pytest.importorskip("torch")
    module = importlib.import_module(f"generated.{target}.attention_masked")
    monkeypatch.setattr(module, "bounded", lambda *_: is_bounded)
    q, k, v, upstream = np.random.default_rng(0).standard_normal((4, 2, 8, 4))
    seen = np.random.default_rng(1).integers(0, 2, (8, 8)) > 0
    seen[2], seen[3, :5], seen[4, 3:] = False, False, False
    output, slopes, dv = expected(q @ k.swapaxes(-1, -2) / 2, seen, v, upstream)
    library = array_library(target)
    arrays = [library.array(value) for value in (q, k, v, seen.astype(np.int64))]
    for columns in WIDTHS:
        space = workspace(target, rows=3, columns=columns)
        with np.errstate(all="raise", under="ignore"):
            made, saved = getattr(module, f"attention_masked{flavour}_forward")(*arrays, workspace=space)
            backward = getattr(module, f"attention_masked{flavour}_backward")
            gradients = backward(library.array(upstream), saved, workspace=space)
        wanted = output, slopes @ k / 2, slopes.swapaxes(-1, -2) @ q / 2, dv
        for one, other in zip(wanted, (made, *gradients), strict=True):
            np.testing.assert_allclose(np.asarray(other), one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [0, 1, 5, 7, 512, 513, 1000])
@pytest.mark.parametrize("columns", [1, 2, 3, 512, None])
@pytest.mark.parametrize("target", TARGETS)
def test_tiles_are_a_range_in_pieces(target: str, columns: int | None, size: int) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    tiles = list(workspace(target, columns=columns).tiles(slice(3, 3 + size), 512))
    assert [is_first for is_first, _ in tiles] == [True, *[False] * (len(tiles) - 1)]
    assert [place for _, tile in tiles for place in range(tile.start, tile.stop)] == list(range(3, 3 + size))
    widths = {tile.stop - tile.start for _, tile in tiles}
    assert max(widths) <= (columns or 512)
    assert size == 0 or min(widths) > 0


def test_a_workspace_refuses_what_is_no_number_of_columns() -> None:
    with pytest.raises(ValueError, match=r"columns: expected at least 1, found 0"):
        workspace("numpy", columns=0)


# ---------------------------------------------------------------------------------------------------------------------
# Derivations that no file of the library has: which of them can be cut, and that the cut does not show.

N, T, S, d, e = dims("N T S d e")
n, i, j, a, c = leading_index("n", N), index("i", T), index("j", S), index("a", d), index("c", e)
Q, K, V, B = tensor("Q", N, T, d), tensor("K", N, S, d), tensor("V", N, S, e), tensor("B", T, S)


def with_bias_and_scale() -> Program:
    """No bound of the exponents is known, and the saved maximum may be -inf."""
    program = Program("biased_rows", "attention with a bias", [Q, K, V, B])
    s = program.define("s", [n, i, j], Sum(Q[n, i, a] * K[n, j, a], a) + B[i, j])
    A = program.define("A", [n, i, j], softmax(s[n, i, j], over=j))
    O = program.define("O", [n, i, c], Sum(A[n, i, j] * V[n, j, c], j))
    program.kernel(O, wrt=[Q, K, V])
    return program


def with_its_normaliser() -> Program:
    """The maximum is part of a result."""
    program = Program("rows_and_scale", "attention and its logsumexp", [Q, K, V, B])
    s = program.define("s", [n, i, j], Sum(Q[n, i, a] * K[n, j, a], a) + B[i, j])
    A = program.define("A", [n, i, j], softmax(s[n, i, j], over=j))
    O = program.define("O", [n, i, c], Sum(A[n, i, j] * V[n, j, c], j))
    L = program.define("L", [n, i], logsumexp(s[n, i, j], over=j))
    program.kernel(O, L)
    return program


def two_maxima() -> Program:
    """Two running maxima in one loop."""
    share = scalar("share", positive=True)
    program = Program("two_rows", "difference of two attentions", [Q, K, V, B, share])
    s = program.define("s", [n, i, j], Sum(Q[n, i, a] * K[n, j, a], a) + B[i, j])
    t = program.define("t", [n, i, j], s[n, i, j] - 2 * B[i, j])
    A = program.define("A", [n, i, j], softmax(s[n, i, j], over=j))
    D = program.define("D", [n, i, j], softmax(t[n, i, j], over=j))
    P = program.define("P", [n, i, c], Sum(A[n, i, j] * V[n, j, c], j))
    R = program.define("R", [n, i, c], Sum(D[n, i, j] * V[n, j, c], j))
    O = program.define("O", [n, i, c], P[n, i, c] - share * R[n, i, c])
    program.kernel(O, wrt=[Q, K, V], defaults={share: 0.5})
    return program


def squares() -> Program:
    """The square of an exponential is no multiple of it: forward, a block keeps its whole rows."""
    program = Program("square_rows", "squares of probabilities", [Q, K, V])
    s = program.define("s", [n, i, j], Sum(Q[n, i, a] * K[n, j, a], a))
    A = program.define("A", [n, i, j], softmax(s[n, i, j], over=j))
    O = program.define("O", [n, i, c], Sum(A[n, i, j] ** 2 * V[n, j, c], j))
    program.kernel(O, wrt=[Q, K, V])
    return program


def beside_its_logits() -> Program:
    """A sum of an exponential and something else has no scale."""
    program = Program("mixed_rows", "probabilities and logits", [Q, K, V, B])
    s = program.define("s", [n, i, j], Sum(Q[n, i, a] * K[n, j, a], a) + B[i, j])
    A = program.define("A", [n, i, j], softmax(s[n, i, j], over=j))
    O = program.define("O", [n, i, c], Sum((A[n, i, j] + s[n, i, j]) * V[n, j, c], j))
    M = program.define("M", [n, i, c], Sum(s[n, i, j] * V[n, j, c], j))
    program.kernel(O, M)
    return program


# What is cut: how many loops over tiles there are, and how many running maxima.
UNSEEN = {
    with_bias_and_scale: (3, 1), with_its_normaliser: (1, 1), two_maxima: (3, 2), squares: (2, 0),
    beside_its_logits: (0, 0),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("made", UNSEEN, ids=lambda made: made.__name__)
def test_unseen_kernels_are_right_at_two_columns_a_tile(made: Any, target: str, tmp_path: Path) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    program = made()
    write(render_all([program], [target]), tmp_path, [target])
    source = (tmp_path / target / f"{program.name}.py").read_text()
    assert (source.count("workspace.tiles"), source.count("_factor = ")) == UNSEEN[made]
    space = tmp_path / target / "workspace.py"
    text = space.read_text()
    for constant, value in (("MATRIX", "2, 3"), ("TILE", "2"), ("COLUMNS", "2"), ("BLOCK", "6")):
        (line,) = (line for line in text.splitlines() if line.startswith(f"{constant} = "))
        text = text.replace(line, f"{constant} = {value}")
    space.write_text(text)
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [result for result in results if not result.ok]


def test_a_row_that_begins_with_infinite_logits(tmp_path: Path) -> None:
    """Where a tile has nothing but -inf, the maximum so far counts as the least number."""
    program = with_its_normaliser()
    write(render_all([program], ["numpy"]), tmp_path / "infinite", ["numpy"])
    (tmp_path / "infinite" / "__init__.py").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        kernel = importlib.import_module("infinite.numpy.rows_and_scale").rows_and_scale
        space = importlib.import_module("infinite.numpy.workspace").Workspace(columns=2)
    q, k, v = np.random.default_rng(0).standard_normal((3, 6, 4))
    bias = np.zeros((6, 6))
    bias[1, :4], bias[2, 3:], bias[3, :5] = -np.inf, -np.inf, -np.inf
    output, scale = kernel(q, k, v, bias, workspace=space)
    logits = q @ k.T + bias
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(output, weights / weights.sum(-1, keepdims=True) @ v, rtol=1e-12)
    np.testing.assert_allclose(scale, np.log(weights.sum(-1)) + logits.max(-1), rtol=1e-12)
