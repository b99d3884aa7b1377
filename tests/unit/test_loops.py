"""Which statements a loop over blocks takes in besides those that it is for."""

from __future__ import annotations

import pytest

from codegen.blocking.loops import Loop, looped
from codegen.ir.nodes import Contract, Literal, Map, Node, Read, Reduce
from codegen.ir.sharing import Statement
from derive.language import Index, dims, index

N, C, F = dims("N C F")
n, c, f = index("n", N), index("c", C), index("f", F)
SIZES = {"N": 4096, "C": 512, "F": 2048}
X, W, V = Read("x", (n, c)), Read("w", (f, c)), Read("v", (c, f))


def of(operation: str, *operands: Node) -> Node:
    return Map(operation, operands)


def wide(name: str) -> Read:
    return Read(name, (n, f))


BODY = [
    Statement("u", Contract(X, W, (c,)), (n, f)),
    Statement("p", of("tanh", wide("u")), (n, f)),
    Statement("h", of("mul", wide("p"), wide("u")), (n, f)),
    Statement("y", Contract(wide("h"), V, (f,)), (n, c)),
]


def loop_of(statements: list[Statement], kept: list[str]) -> Loop:
    (found,) = (step for step in looped(statements, kept, SIZES) if isinstance(step, Loop))
    return found


def names(loop: Loop) -> set[str]:
    return {statement.name for statement in loop.body}


def test_what_is_wanted_whole_is_computed_while_its_operands_are_at_hand() -> None:
    more = [Statement("e", of("exp", wide("u")), (n, f)), Statement("g", of("mul", wide("e"), wide("p")), (n, f))]
    loop = loop_of([*BODY, *more], ["y", "g"])
    assert names(loop) == {"u", "p", "h", "y", "e", "g"}
    assert set(loop.stored) == {"y", "g"}


def test_what_takes_the_place_of_its_operand_follows() -> None:
    scaled = Statement("z", of("mul", Read("scale", ()), Read("y", (n, c))), (n, c))
    loop = loop_of([*BODY, scaled, Statement("sum", Reduce("sum", Read("z", (n, c)), (n,)), (c,))], ["z", "sum"])
    assert "z" in names(loop)
    assert "y" not in loop.stored


@pytest.mark.parametrize(
    ("follower", "kept"),
    [
        pytest.param(of("mul", Read("y", (n, c)), Read("y", (n, c))), ["y", "last"], id="it would be one more array"),
        pytest.param(of("mul", Read("y", (n, c)), Read("total", (c,))), ["z", "last"], id="it waits for all rows"),
    ],
)
def test_others_stay_outside(follower: Node, kept: list[str]) -> None:
    more = [
        Statement("total", Reduce("sum", Read("y", (n, c)), (n,)), (c,)),
        Statement("z", follower, (n, c)),
        Statement("last", Contract(Read("z", (n, c)), Read("total", (c,)), (c,)), (n,)),
    ]
    loop = loop_of([*BODY, *more], kept)
    assert {"u", "p", "h", "y"} <= names(loop)
    assert "z" not in names(loop)


def test_a_product_of_matrices_is_not_taken_apart() -> None:
    """Experts f of which each sample n has one row: sums over samples are products for blocks of samples."""
    e = index("e", dims("E")[0])
    gate, share = of("tanh", Read("z", (n, f, e))), Read("g", (n, f))
    made = Map("mul", (share, of("square", gate)))
    slope = Contract(X, Read("h", (n, f, e)), (n,))
    statements = [Statement("h", made, (n, f, e)), Statement("dU", slope, (f, c, e))]
    loop = next(step for step in looped(statements, ["dU"], {**SIZES, "E": 64}) if isinstance(step, Loop))
    assert "dU" in loop.accumulated
    assert (loop.row, loop.outer) == (n, ())


def vector(name: str, index: tuple[Index, ...] = (n,)) -> Read:
    return Read(name, index)


FLAT = [
    Statement("m", of("mul", vector("g"), vector("g")), (n,)),
    Statement("r", of("sqrt", vector("m")), (n,)),
]


def test_what_is_computed_entry_by_entry_is_computed_in_stretches() -> None:
    loop = loop_of(FLAT, ["r"])
    assert loop.is_flat
    assert (loop.row, loop.outer) == (n, ())
    assert set(loop.stored) == {"r"}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(Statement("s", of("mul", X, X), (n, c)), id="beside matrices, vectors are small"),
        pytest.param(Statement("s", Reduce("sum", vector("r"), (n,)), ()), id="a sum over all is not for a stretch"),
        pytest.param(Statement("s", of("add", vector("r"), Literal(1.0)), (n,)), id="one pass gains nothing"),
    ],
)
def test_vectors_that_need_no_stretches(more: Statement) -> None:
    first = FLAT if more.axes != (n,) else []
    assert not any(isinstance(step, Loop) for step in looped([*first, more], ["s", "r"], SIZES))
