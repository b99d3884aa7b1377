"""Derivatives: the rules they must obey, difference quotients in forty digits, and SymPy on explicit matrices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import pytest
import sympy
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sympy import Abs, Eq, Max, Min, Rational, erf, exp, log, sign, sqrt, tanh

from derive.binders import free_indices, substitute
from derive.functions import (
    gelu,
    gelu_tanh,
    log_softmax,
    logsumexp,
    mean,
    silu,
    softmax,
    softplus,
    unfold,
    variance,
)
from derive.language import (
    Product,
    Scalar,
    Sum,
    Tensor,
    Where,
    delta,
    dims,
    flag,
    implies,
    index,
    indices,
    iverson,
    lengths,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.program import Program
from derive.prove import PROVED, prove

T, d, V, N = dims("T d V N")
i, j, k, l = indices("i j k l", T)
a, b = indices("a b", d)
v = index("v", V)
n, m = indices("n m", N)
L = lengths("L", N)
t, u = index("t", L[n]), index("u", L[n])
x, y = tensors("x y", T)
p, q = tensors("p q", T, positive=True)
X = tensor("X", T, T)
W = tensor("W", T, d)
E = tensor("E", V, d)
g = tensor("g", V)
R = tensor("R", N, L)
z = tensor("z", N)
token = tensor("token", T, into=V)
turn = tensor("turn", T, into=T)
s, r = scalars("s r")
c, e = scalars("c e", positive=True)
causal = flag("causal")

STEP = mp.mpf(10) ** -12
CLOSE = mp.mpf(10) ** -14


def gradient_of(*definitions: tuple[str, tuple[Any, ...], Any]) -> Any:
    """The gradient of the last of some definitions; a body may be a function of the names defined before."""
    program = Program("statement")
    known: dict[str, Any] = {}
    for name, over, body in definitions:
        known[name] = program.define(name, over, body(known) if callable(body) else body)
    return program.gradient(program.definitions[-1].symbol)


def quotients_agree(gradient: Any, world: Any, explicit: Any) -> bool:
    """Whether every entry of every adjoint of an input is the difference quotient of the sum of dy * y."""
    output = gradient.forward.definition(str(gradient.output.name))
    spots = [tuple(at[index] for index in output.indices) for at in world.places(output.indices)]
    weights = {spot: world.cell(gradient.upstream, spot) for spot in spots}
    for spot in spots:
        world.cell(output.symbol, spot)
    adjoints = {}
    for symbol in gradient.forward.all_inputs():
        found = gradient.definition(gradient.adjoints.get(str(symbol.name), ""))
        for at in world.places(found.indices) if found is not None else ():
            spot = tuple(at[index] for index in found.indices)
            adjoints[str(symbol.name), spot] = world.cell(found.symbol, spot)
    defined = {definition.name for definition in gradient.definitions}
    given = {key: cell for key, cell in world.cells.items() if key[0] not in defined}

    def weighted(cells: dict[Any, Any]) -> Any:
        moved = explicit(0, program=gradient.forward)
        moved.sizes, moved.cells = world.sizes, dict(cells)
        return mp.fsum(weight * moved.cell(output.symbol, spot) for spot, weight in weights.items())

    for key, adjoint in adjoints.items():
        value = given.get(key, mp.mpf(1))
        up, down = (weighted({**given, key: value + step}) for step in (STEP, -STEP))
        if abs((up - down) / (2 * STEP) - adjoint) > CLOSE * (1 + abs(adjoint)):
            return False
    return bool(adjoints)


# ---------------------------------------------------------------------------------------------------------------------
# Difference quotients.

PROGRAMS: dict[str, tuple[tuple[str, tuple[Any, ...], Any], ...]] = {
    "diagonal": (("o", (), Sum(X[i, i] * x[i], i)),),
    "an entry, its transpose and the diagonal": (("o", (i, j), X[i, j] * X[j, i] * X[i, i]),),
    "look-up": (("o", (i,), Sum(E[token[i], a] ** 2, a)),),
    "two look-ups of one table": (("o", (i, j), Sum(E[token[i], a] * E[token[j], a], a)),),
    "look-up beside itself": (("o", (i,), X[turn[i], i] * x[turn[i]] * x[i]),),
    "fixed entry": (("o", (i,), x[0] * x[i] + X[0, 0] * X[i, 0]),),
    "delta with a position that may not be there": (("o", (), Sum(s * delta(i, 2) * x[i] + r * delta(i, 2), i)),),
    "ragged": (("o", (n,), Sum(R[n, t] ** 2, t)),),
    "ragged with a delta on the outer index": (("o", (), Sum(s * delta(n, m) * z[m] * R[n, t], n, t, m)),),
    "ragged softmax": (("o", (n, t), softmax(R[n, t], over=t)),),
    "ragged pairs": (("o", (), Sum(R[n, t] * R[n, u] * iverson(u <= t), n, t, u)),),
    "product": (("o", (j,), Product(x[i] + X[i, j], i)),),
    "product over two indices": (("o", (k,), Product(X[i, j] + X[j, k], i, j) * x[k]),),
    "product in a product": (("o", (), Product(x[i] + Product(x[j] + x[i], j), i)),),
    "ragged product": (("o", (), Product(R[n, t] * s, n, t)),),
    "masked product": (("o", (i,), Product(where(j <= i, x[j] * s, 2), j)),),
    "maximum and minimum": (("o", (i,), Max(x[i], s, r) * Min(x[i], s)),),
    "absolute value and sign": (("o", (i,), Abs(x[i] * s) * sign(x[i])),),
    "powers": (("o", (i,), c ** x[i] * p[i] ** i * p[i] ** x[i]),),
    "softmax of softmax": (("o", (i,), softmax(Sum(X[i, j] * softmax(X[i, j], over=j), j), over=i)),),
    "softmax over the index that is summed": (("o", (), Sum(softmax(x[j], over=j) * x[j], j)),),
    "masked softmax": (("o", (i, j), softmax(X[i, j], over=j, where=implies(causal, j <= i))),),
    "masked logsumexp": (("o", (i,), logsumexp(X[i, j], over=j, where=j <= i)),),
    "log softmax": (("o", (i, j), log_softmax(X[i, j] * X[j, i], over=j)),),
    "variance": (("o", (i,), variance(X[i, j], over=j) * mean(X[i, k], over=k)),),
    "activations": (("o", (i,), gelu(x[i]) * gelu_tanh(x[i]) + silu(x[i]) * softplus(x[i]) * tanh(x[i]) * erf(x[i])),),
    "functions of a delta": (("o", (i, j), exp(delta(i, j) * x[i]) * log(2 + delta(i, j) * p[j])),),
    "case on an equality": (("o", (i, v), where(Eq(v, token[i]), g[v], s)),),
    "an index as a number": (("o", (i,), Sum(j * x[j] * i, j)),),
    "a name used twice": (
        ("h", (i,), Sum(x[j] * X[i, j], j)),
        ("o", (j,), lambda at: Sum(at["h"][i] * at["h"][j] * x[i], i)),
    ),
    "names that clash when written in": (
        ("h", (i,), Sum(x[j] * X[i, j], j)),
        ("o", (i,), lambda at: Sum(at["h"][j] * Sum(at["h"][i] * X[i, j], i), j) * at["h"][i]),
    ),
    "folding a root": (("h", (i,), sqrt(p[i])), ("o", (i,), lambda at: at["h"][i] * p[i] ** 2)),
    "folding an exponential": (("h", (i,), exp(2 * x[i])), ("o", (i,), lambda at: at["h"][i] * exp(4 * x[i]))),
    "folding a quotient": (
        ("h", (i,), 1 / (1 + x[i] ** 2)),
        ("o", (i,), lambda at: at["h"][i] ** 3 * x[i] / (1 + x[i] ** 2) ** 2),
    ),
    "folding under other indices": (
        ("h", (i,), Sum(exp(X[i, j]), j)),
        ("o", (j,), lambda at: Sum(at["h"][i] * exp(X[i, j]), i) / at["h"][j]),
    ),
    "folding a diagonal": (("h", (i,), exp(X[i, i])), ("o", (i, j), lambda at: at["h"][i] * exp(X[i, j]))),
    "folding under a mask": (
        ("h", (i, j), softmax(X[i, j], over=j, where=j <= i)),
        ("o", (i,), lambda at: Sum(at["h"][i, j] ** 2 * x[j] * exp(X[i, j]), j)),
    ),
    "folding a ragged range": (
        ("h", (n,), exp(z[n]) / Sum(exp(s + t * r), t)),
        ("o", (n, m), lambda at: at["h"][n] * exp(z[m]) * Sum(exp(s + t * r), t)),
    ),
    "a definition that is constant along an index": (
        ("h", (i,), tanh(logsumexp(W[i, a] * 0 + s * W[i, a], over=a))),
        ("o", (), lambda at: at["h"][0] ** 2),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_the_difference_quotient(explicit: Any, no_value: Any, name: str) -> None:
    gradient = gradient_of(*PROGRAMS[name])
    compared = 0
    for seed in range(6):
        try:
            assert quotients_agree(gradient, explicit(seed, program=gradient), explicit)
        except no_value:
            continue
        compared += 1
    assert compared > 0


@pytest.mark.parametrize("zeros", [1, 2])
def test_a_product_has_a_derivative_at_zero_factors(explicit: Any, zeros: int) -> None:
    gradient = gradient_of(("o", (), Product(x[i], i)))
    world = explicit(0, low=3, program=gradient)
    world.cells |= {("x", (place,)): mp.mpf(0) for place in range(zeros)}
    assert quotients_agree(gradient, world, explicit)


@settings(max_examples=70, deadline=None, derandomize=True)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_the_gradient_of_a_random_program(statements: Any, explicit: Any, no_value: Any, data: Any, seed: int) -> None:
    first, second = (data.draw(statements.expressions(2)) for _ in range(2))
    if any(body.atoms(Tensor, Scalar) <= {statements.token, statements.turn, statements.L} for body in (first, second)):
        reject()
    program = Program("statement")
    h = program.define("h", sorted(free_indices(first), key=str), first)
    at = [statements.place(data.draw, sorted(free_indices(second), key=str), size) for size in getattr(h, "shape", ())]
    body = second * (h[tuple(at)] if at else h) + (h[tuple(at)] if at else h) ** 2
    o = program.define("o", sorted(free_indices(body), key=str), body)
    gradient = program.gradient(o)
    world = explicit(seed, program=gradient, high=2)
    try:
        assert quotients_agree(gradient, world, explicit) or len(gradient.definitions) == len(program.definitions) + 1
    except no_value:
        reject()


# ---------------------------------------------------------------------------------------------------------------------
# The rules of differentiation, decided by the normal form.


def derivative(body: Any, variable: Any) -> Any:
    return Program("statement").derivative(body, variable)


def equal(left: Any, right: Any) -> bool:
    ledger = Ledger()
    return is_zero(ledger, normal_form(ledger, sympy.sympify(left)) - normal_form(ledger, sympy.sympify(right)))


BODIES = (
    x[i] ** 2 * y[i],
    Sum(X[i, j] * x[j], j),
    softmax(x[i], over=i),
    exp(Sum(x[j] * y[j], j)) * x[i],
    1 / (c + x[i] ** 2),
    Sum(X[i, j] * x[i] * x[j], i, j),
    log(Sum(exp(x[j] + X[i, j]), j)),
)


@pytest.mark.parametrize(("f", "h"), list(itertools.combinations(BODIES, 2)), ids=str)
def test_linear_and_product_rule(f: Any, h: Any) -> None:
    df, dh = derivative(f, x[l]), derivative(h, x[l])
    assert equal(derivative(3 * f - s * h, x[l]), 3 * df - s * dh)
    assert equal(derivative(f * h, x[l]), df * h + f * dh)


@pytest.mark.parametrize("outer", [exp, sympy.sin, tanh, erf, sympy.atan, lambda at: at**3, lambda at: 1 / (at**2 + c)])
@pytest.mark.parametrize("inner", BODIES[:4], ids=str)
def test_chain_rule(outer: Callable[[Any], Any], inner: Any) -> None:
    slope = outer(s).diff(s)
    assert equal(derivative(outer(s), s), slope)
    assert equal(derivative(outer(inner), x[l]), substitute(slope, {s: inner}) * derivative(inner, x[l]))


@pytest.mark.parametrize("f", BODIES, ids=str)
def test_a_derivative_vanishes_for_what_does_not_occur(f: Any) -> None:
    assert equal(derivative(f + r * s, r), s)
    assert equal(derivative(f + W[i, a], W[k, b]), delta(i, k) * delta(a, b))
    assert derivative(f + s, z[n]) == 0


@pytest.mark.parametrize("f", BODIES, ids=str)
def test_second_derivatives_do_not_depend_on_the_order(f: Any) -> None:
    assert equal(derivative(derivative(f, x[k]), x[l]), derivative(derivative(f, x[l]), x[k]))


def test_the_axiom() -> None:
    assert derivative(X[i, j], X[k, l]) == delta(i, k) * delta(j, l)
    assert derivative(X[i, i], X[k, l]) == delta(i, k) * delta(i, l)
    assert derivative(x[i], x[i]) == 1
    assert derivative(E[token[i], a], E[v, b]) == delta(token[i], v) * delta(a, b)


# ---------------------------------------------------------------------------------------------------------------------
# Explicit matrices, differentiated entry by entry by SymPy.


class Unrolled:
    """Expressions over explicit sizes as ordinary SymPy expressions in one symbol for each entry."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes

    def entries(self, tensor_: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        for spot in itertools.product(*(range(self.sizes[size.name]) for size in getattr(tensor_, "shape", ()))):
            yield spot, self.entry(tensor_, spot)

    def entry(self, tensor_: Any, spot: tuple[int, ...]) -> Any:
        text = "_".join([str(tensor_.name), *map(str, spot)])
        return (
            sympy.Symbol(text, positive=True) if getattr(tensor_, "positive", False) else sympy.Symbol(text, real=True)
        )

    def read(self, node: Any, places: dict[Any, int]) -> Any:
        if node in places:
            return sympy.Integer(places[node])
        if isinstance(node, sympy.Indexed):
            return self.entry(node.base, tuple(int(self.read(part, places)) for part in node.indices))
        if isinstance(node, Scalar):
            return self.entry(node, ())
        if isinstance(node, type(T)):
            return sympy.Integer(self.sizes[node.name])
        if isinstance(node, sympy.Sum):
            bound = [limit[0] for limit in node.limits]
            ranges = [range(self.sizes[index.extent.name]) for index in bound]
            return sympy.Add(
                *(
                    self.read(node.function, {**places, **dict(zip(bound, at, strict=True))})
                    for at in itertools.product(*ranges)
                )
            )
        if isinstance(node, sympy.KroneckerDelta):
            return sympy.Integer(self.read(node.args[0], places) == self.read(node.args[1], places))
        if isinstance(node, Where):
            held = self.read(node.args[0], places)
            return self.read(node.args[1], places) if held else self.read(node.args[2], places)
        if not node.args:
            return node
        return node.func(*(self.read(part, places) for part in node.args))


# ---------------------------------------------------------------------------------------------------------------------
# A derivative is an expression like any other: its free indices can be summed over, whatever names it binds.

DERIVATIVES: dict[str, tuple[Any, Any, tuple[Any, ...], Any]] = {
    "softmax": (softmax(x[i], over=i), x[j], (i,), 0),
    "softmax, over both": (softmax(x[i], over=i), x[j], (i, j), 0),
    "log-softmax": (log_softmax(x[i], over=i), x[j], (j,), 0),
    "a sum beside its entry": (x[i] * Sum(x[i], i), x[j], (j,), Sum(x[i], i) + T * x[i]),
    "logsumexp beside an entry": (y[i] * logsumexp(x[i], over=i), x[j], (i, j), Sum(y[i], i)),
    "a ragged softmax": (softmax(R[n, t], over=t), R[m, index("w", L[m])], (t,), 0),
    "a ragged sum of squares": (Sum(R[n, t] ** 2, n, t), R[m, index("w", L[m])], (), 2 * R[m, index("w", L[m])]),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_derivative_can_be_summed_over_its_indices(name: str) -> None:
    value, variable, over, right = DERIVATIVES[name]
    program = Program("sum")
    slope = program.derivative(value, variable)
    left = Sum(slope, *over) if over else slope
    free = sorted(free_indices(left) | free_indices(sympy.sympify(right)), key=str)
    assert prove(program.claim("c", left, right, over=free)).status == PROVED


def test_the_jacobian_for_a_ragged_tensor() -> None:
    program = Program("ragged")
    squares = program.define("squares", [n], Sum(R[n, t] ** 2, t))
    jacobian = program.jacobian(squares, R)
    w = index("w", L[m])
    claim = jacobian.claim("c", jacobian["dsquares_dR"][n, m, w], 2 * R[m, w] * delta(n, m))
    assert prove(claim).status == PROVED


def test_no_index_of_a_derivative_has_the_name_of_a_number() -> None:
    number = scalar("i_1")
    program = Program("names")
    slope = program.derivative(softmax(x[i] * number, over=i), x[j])
    assert prove(program.claim("c", Sum(slope, i), 0, over=[j])).status == PROVED
    o = program.define("o", [], Sum(x[k] * scalar("i"), k))
    jacobian = program.jacobian(o, x)
    assert all(index_.name != "i" for index_ in jacobian.definitions[-1].indices)


EXPLICIT: dict[str, tuple[tuple[Any, ...], Any]] = {
    "tr(A X B)": ((), Sum(W[i, a] * tensor("M", d, V)[a, v] * tensor("B", V, T)[v, i], i, a, v)),
    "x^T A x": ((), Sum(x[i] * X[i, j] * x[j], i, j)),
    "X X + X": ((i, k), Sum(X[i, j] * X[j, k], j) + X[i, k]),
    "rows of softmax": ((i, j), softmax(X[i, j], over=j)),
    "attention": ((i, a), Sum(softmax(Sum(W[i, b] * W[j, b], b), over=j) * W[j, a], j)),
    "layer norm": ((i, a), (W[i, a] - mean(W[i, b], over=b)) / sqrt(variance(W[i, b], over=b) + c)),
    "cross entropy": ((), -Sum(p[i] * log_softmax(x[i], over=i), i)),
    "squared distances": ((i, j), Sum((W[i, a] - W[j, a]) ** 2, a)),
    "cosine": ((), Sum(x[i] * y[i], i) / sqrt(Sum(x[i] ** 2, i) * Sum(y[i] ** 2, i) + c)),
    "a causal sum": ((i,), Sum(x[j] * X[i, j] * iverson(j <= i), j)),
    "a root of a sum": ((), (Sum(p[i], i) + c) ** Rational(3, 2)),
}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", EXPLICIT)
def test_against_explicit_matrices(name: str, size: int) -> None:
    over, body = EXPLICIT[name]
    gradient = gradient_of(("o", over, body))
    output = gradient.forward.definitions[-1]
    unrolled = Unrolled({"T": size, "d": max(1, size - 1), "V": min(size + 1, 3)})
    value, replaced = sympy.S.Zero, {}
    for count, (spot, symbol) in enumerate(unrolled.entries(output.symbol)):
        weight = sympy.Rational(7 + 3 * count, 5)
        meant = unrolled.read(unfold(body), dict(zip(over, spot, strict=True)))
        value += weight * meant
        replaced |= {symbol: meant, unrolled.entry(gradient.upstream, spot): weight}
    numbers = {at: sympy.Rational(3 * count + 2, 7) for count, at in enumerate(sorted(value.free_symbols, key=str))}
    for source in gradient.forward.all_inputs():
        adjoint = gradient.definition(gradient.adjoints[str(source.name)])
        for spot, symbol in unrolled.entries(source):
            read = unrolled.read(unfold(adjoint.body), dict(zip(adjoint.indices, spot, strict=True)))
            found = read.xreplace(replaced).xreplace(numbers).evalf(30)
            expected = value.diff(symbol).xreplace(numbers).evalf(30)
            assert abs(found - expected) < sympy.Float("1e-20") * (1 + abs(expected)), symbol
