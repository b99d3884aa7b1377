"""A hostile expression ends in a verdict within its budget of processor time: never a hang, never a traceback.

What is too large even to be walked through, or nested too deeply, is refused when it is stated.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sympy import Abs, Add, Eq, Expr, Max, Mul, Rational, cos, exp, log, sin, sqrt, tanh

from derive.errors import StatementError
from derive.functions import softmax
from derive.language import Index, Product, Sum, delta, dims, index, indices, iverson, scalars, tensor
from derive.program import Program
from derive.prove import PROVED, prove

SECONDS = 1.0
SLACK = 2.0  # for the numbers that are asked beside the proof, and for the step at which time runs out

T, d = dims("T d")
i, j, k = indices("i j k", T)
c = index("c", d)
X, Y = tensor("X", T, T), tensor("Y", T, T)
x = tensor("x", T)
a, b, s = scalars("a b s")


many = scalars(" ".join(f"w{number}" for number in range(800)))


def repeated(step: Callable[[Expr], Expr], times: int, start: Expr = s) -> Expr:
    """A step, applied so many times."""
    result = start
    for _ in range(times):
        result = step(result)
    return result


def nested(depth: int) -> Expr:
    """exp of exp of ... of a scalar."""
    return repeated(lambda z: exp(z / 10), depth)


def one_and_exp(z: Expr) -> Expr:
    """1 + s exp(z), put together without a look at what z is: that takes long when it is deep."""
    return Add(1, Mul(s, exp(z, evaluate=False), evaluate=False), evaluate=False)


def over_many(count: int, factor: Callable[[list[Index], int], Expr]) -> Expr:
    """A sum over so many indices of a product of factors, one for each index."""
    bound = [index(f"m_{number}", T) for number in range(count)]
    return Sum(Mul(*(factor(bound, number) for number in range(count))), *bound)


def walk(length: int) -> Expr:
    """The sum over all closed walks of a length, with every index summed at once."""
    steps = [index(f"w_{number}", T) for number in range(length)]
    body = 1
    for number in range(length):
        body = body * X[steps[number], steps[(number + 1) % length]]
    return Sum(body, *steps)


def equal_factors(count: int) -> Expr:
    """Interchangeable indices, each met by a factor that ties it to all others."""
    bound = [index(f"q_{number}", T) for number in range(count)]
    return Sum(log(1 + sum(x[one] ** 2 for one in bound)), *bound)


# Made when their turn comes: some take long to be put together.
HOSTILE: dict[str, Callable[[], tuple[Expr, Expr]]] = {
    "a high power of a sum": lambda: ((a + b + s) ** 40, (a + b - s) ** 40),
    "a high power of a sum of sums": lambda: ((a + Sum(x[i], i) + Sum(x[i] ** 2, i)) ** 25, (a + Sum(x[i], i)) ** 25),
    "a closed walk of twelve steps": lambda: (walk(12), walk(11)),
    "twelve interchangeable indices": lambda: (equal_factors(12), 2 * equal_factors(12)),
    "twelve equal sums": lambda: (Sum(x[i], i) ** 12, Sum(x[i], i) ** 11),
    "exponentials within exponentials": lambda: (nested(60), nested(59)),
    "a deep quotient": lambda: (1 / (a + 1 / (b + 1 / (s + 1 / (a + 1 / (b + 1 / (s + 2)))))), a / (b + s)),
    "a product of many sums": lambda: (
        (Sum(x[i], i) + 1) * (Sum(x[i] ** 2, i) + a) * (Sum(x[i] ** 3, i) + b) * (Sum(x[i] ** 4, i) + s) * (a + b) ** 9,
        Sum(x[i], i),
    ),
    "a product over a product": lambda: (
        Product(Product(X[i, j] + a, j) + b, i),
        Product(Product(X[j, i] + a, j) + b, i),
    ),
    "a cosine of many angles": lambda: (cos(a + b + s + Sum(x[i], i) + 2 * a * b + 3 * b * s), cos(a)),
    "a sine in a sine": lambda: (repeated(lambda z: sin(z + a), 40), s),
    "a hyperbolic tangent in another": lambda: (repeated(tanh, 30), s),
    "a logarithm in a logarithm": lambda: (repeated(lambda z: log(1 + exp(z)), 40), s),
    "a continued fraction": lambda: (repeated(lambda z: 1 / (1 + z), 60), s),
    "a quadratic map": lambda: (repeated(lambda z: z * (1 - z), 9), s),
    "absolute values of differences": lambda: (repeated(lambda z: Abs(z - a), 14), s),
    "a maximum of maxima": lambda: (repeated(lambda z: Max(z + a, z * b), 6), s),
    "brackets in an exponent": lambda: (exp(Mul(*(1 + iverson(x[j] > number) * x[k] for number in range(12)))), s),
    "sums of differences": lambda: (over_many(12, lambda n, at: x[n[at]] - x[n[at - 1]]), s),
    "deltas or entries": lambda: (over_many(12, lambda n, at: delta(n[at], n[at - 1]) + x[n[at]]), s),
    "a chain of conditions": lambda: (over_many(10, lambda n, at: iverson(n[at] <= n[at - 1] + at)), s),
    "every index with every other": lambda: (
        over_many(9, lambda n, at: Mul(*(X[n[at], other] for other in n if other != n[at]))),
        s,
    ),
    "a large power of a sum": lambda: ((1 + s) ** 100_000, s),
    "a root of a large number": lambda: (sqrt(10**60 + 7) * s, s),
    "a tower of exponents": lambda: ((1 + a**2) ** ((1 + b**2) ** ((1 + s**2) ** (1 + a**2))), s),
    "fractional powers": lambda: (((a + b) ** 2) ** Rational(1, 97) * ((a + b) ** 3) ** Rational(1, 89), s),
    "softmax of a polynomial": lambda: (softmax(repeated(lambda z: z**2 + z, 5, X[i, j]), over=j), x[i] * x[j]),
    "a product over the power of a sum": lambda: (Product((a + b + x[i]) ** 9, i) ** 5, s),
    "a root in a root": lambda: (sqrt(1 + sqrt(1 + sqrt(1 + Sum(x[i] ** 2, i)))), 1 + Sum(x[i] ** 2, i)),
}


# More that is large: ranges beyond all bounds, tables that no point can have, functions in very many pieces.
four = [index(f"f_{number}", 4) for number in range(12)]
huge = index("huge", 10**9)
Z = tensor("Z", 4, 4, 4, 4, 4, 4)
HOSTILE |= {
    "a range beyond all bounds": lambda: (Sum(s**huge, huge), a),
    "an input beyond all bounds": lambda: (Sum(tensor("B", 10**9)[huge], huge), a),
    "eleven short ranges": lambda: (Sum(exp(sum(Z[tuple(four[k_ : k_ + 6])] for k_ in range(6))), *four[:11]), s),
    "many brackets": lambda: (Mul(*(iverson(x[i] * x[j] * a > number * b + s) + a for number in range(14))), s),
    "a maximum of many": lambda: (Max(*(a * number + b * number**2 + s * (number % 3) for number in range(14))), s),
    "many quotients": lambda: (Mul(*(1 / (a + number * b + s**number) for number in range(9))) * a**4 * b**3, s),
    "many inputs": lambda: (sum(x_ * y_ for x_, y_ in zip(many[:400], many[400:], strict=True)), s),
    "a geometric sum of many factors": lambda: (Sum(Mul(*((a + number) ** i for number in range(12))), i), s),
    "a large power of a size": lambda: (2 ** (2 ** (2**T)), T),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_claim_ends(name: str) -> None:
    left, right = HOSTILE[name]()
    claim = Program("hostile").claim("c", left, right)
    started = time.thread_time()
    verdict = prove(claim, seconds=SECONDS)
    assert verdict.status != PROVED
    assert time.thread_time() - started < SECONDS + SLACK


def chain(length: int) -> Program:
    """Definitions that use the one before twice: written in, they double in size every time."""
    program = Program("chain")
    current = program.define("v0", [i], x[i] * s)
    for number in range(1, length):
        current = program.define(f"v{number}", [i], tanh(current[i]) + Sum(current[j] * X[i, j], j))
    return program


@pytest.mark.parametrize("given", [(), (Eq(Sum(x[i], i), 1),)])
@pytest.mark.parametrize("other", ["v3", "v298"])
def test_a_long_chain_of_definitions_ends(other: str, given: tuple[Eq, ...]) -> None:
    program = chain(300)
    claim = program.claim("c", program["v299"][i], program[other][i], given=given)
    started = time.thread_time()
    assert prove(claim, seconds=SECONDS).status != PROVED
    assert time.thread_time() - started < SECONDS + SLACK


MEMORY = """
from sympy import Mul, exp, log
from gradproof import Program, Sum, dims, index, prove, scalars, tensor

(T,) = dims("T")
x, Z = tensor("x", T), tensor("Z", 4, 4, 4, 4, 4, 4)
a, b, s = scalars("a b s")
many = [index(f"m_{number}", T) for number in range(12)]
four = [index(f"f_{number}", 4) for number in range(12)]
for left in (
    (a + b + s) ** 40 * (1 + s) ** 40,
    Sum(log(1 + sum(x[one] ** 2 for one in many)), *many),
    Sum(exp(sum(Z[tuple(four[k : k + 6])] for k in range(6))), *four[:11]),
):
    assert prove(Program("hostile").claim("c", left, s), seconds=1.0).status != "Proved"
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say how much memory was used")
def test_a_hostile_claim_ends_within_a_budget_of_memory() -> None:
    ran = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 300_000  # kilobytes


def test_a_hypothesis_that_grows_what_it_is_applied_to_ends() -> None:
    claim = Program("grows").claim("c", Sum(x[i] ** 7, i), s, given=[Eq(x[i], 1 + Sum(X[i, j] * X[j, k], j, k))])
    started = time.thread_time()
    assert prove(claim, seconds=SECONDS).status != PROVED
    assert time.thread_time() - started < SECONDS + SLACK


@pytest.mark.parametrize(
    ("left", "message"),
    [
        (lambda: repeated(lambda z: z * (1 - z), 40), "nodes, expected at most"),
        (lambda: repeated(lambda z: 1 / (1 + z + z**2), 40), "nodes, expected at most"),
        (lambda: repeated(one_and_exp, 400), "nested too deeply"),
    ],
    ids=["a quadratic map", "a continued fraction", "four hundred levels"],
)
def test_what_is_too_large_is_refused_at_once(left: Callable[[], Expr], message: str) -> None:
    large = left()
    started = time.thread_time()
    with pytest.raises(StatementError, match=message):
        Program("large").claim("c", large, s)
    assert time.thread_time() - started < 1
