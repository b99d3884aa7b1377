"""Which sizes may be 0: by the structure of the definitions, for the value and for the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sympy import Ne, exp, log, sqrt, tanh

from codegen.generate import render_all
from codegen.planning.least_sizes import least_sizes
from derive.functions import log_softmax, logsumexp, mean, softmax, variance
from derive.language import Product, Sum, dims, index, indices, iverson, tensor, tensors, where
from derive.program import Program

N, T = dims("N T")
n = index("n", N)
t, s = indices("t s", T)
x, keep = tensor("x", N, T), tensor("keep", T, into=2)


def needs(*bodies: tuple[str, list[Any], Callable[[dict[str, Any]], Any]]) -> dict[str, tuple[int, str]]:
    program, made = Program("p"), {}
    for name, over, body in bodies:
        made[name] = program.define(name, over, body(made))
    return least_sizes(program.definitions, program.definitions)


@pytest.mark.parametrize(
    "body",
    [
        Sum(x[n, t], t),
        Product(x[n, t], t),
        Sum(softmax(x[n, t], over=t) * x[n, t], t),
        Sum(x[n, t] / Sum(x[n, s], s), t),
        sqrt(Sum(x[n, t] ** 2, t)),
        tanh(Sum(x[n, t], t)),
        1 / (1 + Sum(x[n, t], t)),
        1 / exp(Sum(x[n, t], t)),
        log(1 + Sum(x[n, t], t)),
        mean(x[n, t], over=t, where=keep[t] > 0),
        logsumexp(x[n, t], over=t, where=keep[t] > 0),
        where(Sum(iverson(keep[t] > 0), t) > 0, Sum(x[n, t], t) / Sum(iverson(keep[t] > 0), t), 0),
        where(Ne(Sum(x[n, t], t), 0), 1 / Sum(x[n, t], t), 0),
        iverson(Sum(x[n, t] ** 2, t) > 0) / Sum(x[n, t] ** 2, t),
    ],
    ids=str,
)
def test_has_a_value_over_nothing(body: Any) -> None:
    assert "T" not in needs(("y", [n], lambda _: body))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (mean(x[n, t], over=t), "mean over t"),
        (variance(x[n, t], over=t), "variance over t"),
        (logsumexp(x[n, t], over=t), "logsumexp over t"),
        (1 / Sum(x[n, t], t), "division by Sum_t(x[n,t])"),
        (Sum(x[n, t], t) / sqrt(T), "division by T"),
        (1 / tanh(Sum(x[n, t], t)), "division by tanh(Sum_t(x[n,t]))"),
        (log(Sum(x[n, t], t) ** 2), "logarithm of Sum_t(x[n,t])**2"),
        (Sum(x[n, t] + 1 / T, t), None),
        (where(Sum(x[n, t], t) > 0, 0, 1 / Sum(x[n, t], t)), "division by Sum_t(x[n,t])"),
    ],
    ids=str,
)
def test_has_none(body: Any, why: str | None) -> None:
    found = needs(("y", [n], lambda _: body))
    assert found.get("T") == (None if why is None else (1, why))


def test_names_are_looked_into() -> None:
    found = needs(
        ("total", [n], lambda _: Sum(x[n, t], t)), ("double", [n], lambda made: 2 * made["total"][n]),
        ("y", [n], lambda made: 1 / made["double"][n]),
    )  # fmt: skip
    assert found == {"T": (1, "division by double[n]")}


def test_an_entry_by_number_needs_as_many() -> None:
    assert needs(("y", [n], lambda _: x[n, 2] - x[n, 0]))["T"] == (3, "entry x[n,2]")


def test_an_empty_array_asks_for_nothing() -> None:
    assert (
        needs(("p", [n, t], lambda _: softmax(x[n, t], over=t)), ("y", [n, t], lambda _: log_softmax(x[n, t], over=t)))
        == {}
    )


def test_the_gradient_counts_as_well() -> None:
    program = Program("norm")
    y = program.define("y", [n], sqrt(Sum(x[n, t] ** 2, t)))
    backward = program.gradient(y, [x])
    adjoints = [made for made in backward.definitions if made.name not in program.names()]
    assert least_sizes([*program.definitions, *adjoints], program.definitions) == {}


def test_no_gradient_is_read_from_another_one_by_a_division() -> None:
    """Sum_i(do[i]*y[i]) is Sum_i(dx[i])/T, and costs a kernel that has a value over nothing the size 0."""
    u, v = tensors("u v", T)
    program = Program("p", inputs=[u, v])
    program.kernel(program.define("o", [t], Sum(u[t] + v[s], s) * Sum(v[t], s)), wrt=[u, v])
    assert "needs=" not in render_all([program], ["numpy"])["numpy/p.py"]
