"""Row maxima that are left out: what is computed from them is a number."""

from __future__ import annotations

import pytest

from codegen.blocking.scales import _without
from codegen.ir.nodes import Literal, Map, Node, Read
from codegen.lowering.context import ZERO
from derive.language import dims, leading_index

n = leading_index("n", dims("N")[0])
TOP, X = Read("top", (n,)), Read("x", (n,))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Map("sub", (X, TOP)), X),
        (Map("finite", (TOP,)), ZERO),
        (Map("exp", (Map("neg", (TOP,)),)), Literal(1)),
        (Map("at_least", (TOP, ZERO)), ZERO),
        (Map("maximum", (TOP, TOP)), ZERO),
        (Map("sub", (X, Map("at_least", (TOP, ZERO)))), X),
        (Map("at_least", (TOP, Literal(1))), Map("at_least", (ZERO, Literal(1)))),
    ],
)
def test_what_is_left_of_a_maximum(node: Node, expected: Node) -> None:
    assert _without(node, {"top"}) == expected
