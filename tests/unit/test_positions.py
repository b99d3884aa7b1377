"""Conditions of a proof: can they hold at all positions, or do they leave one out whatever the inputs are?"""

from __future__ import annotations

from typing import Any

import pytest
from sympy import exp

from derive.language import Sum, dims, index, indices, scalar, tensor
from derive.normal.form import normal_form
from derive.normal.ledger import Ledger
from derive.normal.positions import can_hold_everywhere

T, d = dims("T d")
t, u = indices("t u", T)
k, a = index("k", T), index("a", d)
x, y, z = tensor("x", T), tensor("y", T), tensor("z", T + 1)
W = tensor("W", T, d)
s = scalar("s")

EVERYWHERE: dict[str, Any] = {
    "an entry": x[t],
    "a number and a multiple": 1 + s * t,
    "entries of two tensors": x[t] - y[t],
    "neighbours": z[t + 1] - z[t],
    "an entry and its square": x[t] - x[u] ** 2,
    "a row": Sum(W[t, a], a),
}
NOT_EVERYWHERE: dict[str, Any] = {
    "a position": t - 50 + 0 * s,
    "a multiple of a position": s * (t - 50),
    "two entries": x[t] - x[u],
    "an entry and the first": x[t] - x[0],
    "functions of two entries": exp(x[t]) - exp(x[u]),
    "two rows": Sum((W[t, a] - W[u, a]) * W[t, a], a),
    "a sum that may have one term": Sum(x[k], k) - x[t],
}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_some_inputs_meet_a_condition(name: str) -> None:
    assert can_hold_everywhere(normal_form(Ledger(), EVERYWHERE[name]))


@pytest.mark.parametrize("name", NOT_EVERYWHERE)
def test_none_do_where_positions_agree(name: str) -> None:
    assert not can_hold_everywhere(normal_form(Ledger(), NOT_EVERYWHERE[name]))
