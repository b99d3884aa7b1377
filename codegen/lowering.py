"""From the body of a definition to kernel nodes.

Third stage of the compiler, after `codegen.stability`. One row of RULES for each kind of SymPy node. What needs care
is done here and nowhere else: products become contractions in an order chosen by size, brackets become selections,
look-ups gathers and deltas scatters. `codegen.exponentials`, `codegen.contractions` and `codegen.scattering` are the
parts of it that need more than a rule; `lower_definition` in the last is where it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, Pow, Rational, S
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom

from codegen import contractions, exponentials
from codegen.centring import Whole
from codegen.context import MINUS_INFINITY, ONE, ZERO, Context, quotient
from codegen.errors import KernelError
from codegen.guards import Finite, Weight
from codegen.nodes import (
    Gather,
    Identity,
    Literal,
    Map,
    Node,
    Option,
    Position,
    Read,
    Select,
    Size,
    walk,
)
from codegen.stability import ErfComplement, Largest, Softplus
from codegen.tails import ExpAt, Logistic, LogisticAt, LogisticSlope, LogisticSlopeAt, NormalCdf, ScaledCdf
from derive.binders import free_indices
from derive.functions import Defined
from derive.language import Dim, Flag, Index, Scalar, Tensor, Where, is_bracket
from derive.normal.signs import reasons_positive


def lower(node: Any, context: Context) -> Node:
    """The node for an expression; 0 where its value is wanted nowhere.

    Raises:
        KernelError: the expression has no array form (a ragged range, a product over a range, an unknown function).
    """
    if context.nowhere:
        return ZERO
    for kind, rule in RULES:
        if isinstance(node, kind):
            return rule(node, context)
    raise KernelError(f"{context.program}: {node}: {type(node).__name__} cannot be compiled")


# ---------------------------------------------------------------------------------------------------------------------
# Leaves.


def _number(node: Any, context: Context) -> Node:
    value = Rational(str(node)) if isinstance(node, sympy.Float) else node
    return Literal(int(value.p), int(value.q)) if is_short(value) else _in_digits(value, context)


def is_short(value: Any) -> bool:
    """Whether a rational number may be written as it is: libraries take whole numbers of 64 bits."""
    return max(abs(int(value.p)), int(value.q)) < 2**63


def size(node: Any, context: Context) -> Node:
    """The extent of a range as a node.

    Raises:
        KernelError: the range is ragged, or computed from a size.
    """
    if not isinstance(node, (Dim, sympy.Integer)):
        kind = "ragged; a kernel needs rectangular arrays" if node.has(Indexed) else "no size of its own; name it"
        raise KernelError(f"{context.program}: the range {node} is {kind}")
    return Literal(int(node)) if isinstance(node, sympy.Integer) else Size(node)


def _scalar(node: Any, context: Context) -> Node:
    return Option(str(node.name)) if str(node.name) in context.options else Read(str(node.name), ())


def _entry(node: Any, context: Context) -> Node:
    entry = _named_entry(str(node.base.name), node.indices, context)
    # An integer in a sum or product with the numbers of a kernel has their type; libraries would take a wider one.
    return Map("as_number", (entry,)) if node.base.into is not None and not context.counting else entry


def _named_entry(name: str, where: Sequence[Any], context: Context) -> Node:
    if all(isinstance(part, Index) for part in where) and len(set(where)) == len(where):
        for index in where:
            size(index.extent, context)
        return Read(name, tuple(where))
    return Gather(name, tuple(position(part, context) for part in where))


def position(part: Any, context: Context) -> Node:
    """The node for a whole number: an index, or what stands in the place of one."""
    return Position(part) if isinstance(part, Index) else lower(part, replace(context, counting=True))


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic.


def _add(node: Any, context: Context) -> Node:
    signed: list[tuple[bool, Node]] = []
    late: list[tuple[bool, Node]] = []
    waiting = list(node.args)
    for term, scale in exponentials.rows(node.args):
        # x - (top + log(total)) as (x - top) - log(total), before anything else is added to x.
        minus = _is_negative(term)
        top, logarithm = exponentials.logsumexp_parts(-scale if not minus else scale, context)
        top = _finite_if_asked(top, context)
        value = lower(-term if minus else term, context)
        signed.append((minus, Map("sub", (value, top))))
        late.append((not minus, logarithm))
        waiting = [other for other in waiting if other not in (term, scale)]
    for term in waiting:
        minus = _is_negative(term)
        value = -term if minus else term
        parts = logsumexp_parts(value, context)
        if parts is None:
            signed.append((minus, lower(value, context)))
        else:
            # top + log(total) - x as (top - x) + log(total): at a large offset the logarithm would round away.
            signed.append((minus, _finite_if_asked(parts[0], context) if minus else parts[0]))
            late.append((minus, parts[1]))
    # The largest arrays first, what is subtracted last: a bias is added to a product, not a product to a bias.
    signed.sort(key=lambda pair: (pair[0], -len(pair[1].axes)))
    (negative, result), *rest = signed
    if negative:
        result = Map("neg", (result,))
    for minus, operand in (*rest, *late):
        result = Map("sub" if minus else "add", (result, operand))
    return result


def logsumexp_parts(value: Expr, context: Context) -> tuple[Node, Node] | None:
    """The maximum and the logarithm that a logsumexp, or a name defined as one, consists of; None for anything else."""
    if isinstance(value, Defined) and value.name == "logsumexp":
        return exponentials.logsumexp_parts(value, context)
    if isinstance(value, Softplus):
        inside = logsumexp_parts(value.args[0], context)
        return exponentials.softplus_parts(inside) if inside is not None else None
    base = value.base if isinstance(value, Indexed) else value
    names = context.parts.get(str(base.name)) if isinstance(base, (Tensor, Scalar)) else None
    if names is None:
        return None
    where = value.indices if isinstance(value, Indexed) else ()
    top, logarithm = (_named_entry(name, where, context) for name in names)
    return Map("finite", (top,)) if context.finite_tops else wanted_top(top, context), logarithm


def wanted_top(top: Node, context: Context) -> Node:
    """The maximum of a row where the row is wanted, else 0: elsewhere it may be -inf, and so may what it is less."""
    held = [part for part in (*context.domain, *context.around) if free_indices(part) <= set(top.axes)]
    held = [part for part in held if free_indices(part)]
    return Select(lower_condition(sympy.And(*held), context), top, ZERO) if held else top


def _finite_if_asked(top: Node, context: Context) -> Node:
    """A maximum that is subtracted: of nothing it is -inf, and the difference would be of no use to a sum over it."""
    is_finite = isinstance(top, Map) and top.operation == "finite"
    return Map("finite", (top,)) if context.finite_tops and not is_finite else top


def _is_negative(term: Expr) -> bool:
    return bool(term.as_coeff_Mul()[0].is_negative)


def _mul(node: Any, context: Context) -> Node:
    coefficient, rest = node.as_coeff_Mul()
    if coefficient == -1:
        value = lower(rest, context)
        is_sum = context.finite_tops and logsumexp_parts(rest, context) is not None
        return Map("neg", (_finite_if_asked(value, context) if is_sum else value,))
    factors = node.args
    brackets = [factor for factor in factors if is_bracket(factor)]
    context = context.within(sympy.And(*(bracket.args[0] for bracket in brackets)))
    if context.nowhere:
        return ZERO
    above: list[Node] = []
    below: list[Node] = []
    for factor in factors:
        base, power = factor.as_base_exp() if isinstance(factor, Pow) else (factor, S.One)
        if is_bracket(factor):
            continue
        if power.is_Rational and power < 0:
            below.append(_divisor(base, -power, context))
        elif isinstance(factor, sympy.Rational) and factor.q & (factor.q - 1) and is_short(factor):
            # A fraction that is no binary number stays a division.
            above.append(Literal(int(factor.p)))
            below.append(Literal(int(factor.q)))
        elif isinstance(factor, sympy.exp) and brackets:
            above.append(exponentials.exp_where(factor.args[0], sympy.And(*(b.args[0] for b in brackets)), context))
            brackets = []
        else:
            above.append(lower(factor, context))
    result = quotient(_scaled_tails(above), below)
    if brackets:
        result = Select(lower_condition(sympy.And(*(b.args[0] for b in brackets)), context), result, ZERO)
    return result


def _scaled_tails(factors: Sequence[Node]) -> list[Node]:
    """The factors with x f(x) as one function: where f(x) is below the normal numbers, the product may be above."""
    result = list(factors)
    for tail in factors:
        if isinstance(tail, Map) and tail.operation in SCALED and tail.operands[0] in result:
            x = tail.operands[0]
            result[result.index(tail)] = Map(SCALED[tail.operation], (x, *tail.operands))
            result.remove(x)
    return result


SCALED = {"logistic": "scaled_logistic", "logistic_at": "scaled_logistic_at"}


def _pow(node: Any, context: Context) -> Node:
    base, power = node.args
    if power.is_Rational and power < 0:
        return quotient([ONE], [_divisor(base, -power, context)])
    if power == Rational(1, 2):
        return Map("sqrt", (tamed(base, lower(base, context), context),))
    if power.is_Rational and power.q == 2:
        root = Map("sqrt", (tamed(base, lower(base, context), context),))
        return Map("mul", (lower(base ** (power - Rational(1, 2)), context), root))
    if power == 2:
        return Map("square", (lower(base, context),))
    value = lower(base, context)
    return Map("power", (value if power.is_Integer else tamed(base, value, context), lower(power, context)))


def _divisor(base: Expr, power: Expr, context: Context) -> Node:
    """What something is divided by: base^power, harmless outside the domain."""
    if isinstance(base, sympy.Sum) and all(is_bracket(factor) for factor in Mul.make_args(base.function)):
        count = lower(base**power, context)  # of an index set; a mean over the empty one is 0
        return count if count.is_host else Map("at_least_one", (count,))
    value = lower(base**power, context)
    is_open = value.is_host and context.domain and reasons_positive(base) is None
    if is_open and any(isinstance(node, Option) for node in walk(value)):
        # A number of the caller's, which may be 0 where no entry of the branch is wanted.
        return Select(Map("ne", (value, ZERO)), value, ONE)
    return tamed(base**power, value, context)


def tamed(expression: Expr, value: Node, context: Context) -> Node:
    """The argument of a function with a pole: the value where it is wanted, else 1, at which every function is finite.

    Without it the branch that is not taken warns of a division by 0, or overflows. What is positive by its structure
    needs no care, unless it has branches that are wanted nowhere, which are 0; a number of the caller's is not worth an
    array.
    """
    held = [*context.domain, *(part for part in context.around if free_indices(part) <= set(value.axes))]
    is_positive = not expression.has(Where) and reasons_positive(expression) is not None
    if not held or value.is_host or is_positive:
        return value
    condition = lower_condition(sympy.And(*held), context.everywhere())
    if isinstance(value, Map) and value.operation == "sqrt" and _is_one_outside(value.operands[0], condition):
        return value
    return Select(condition, value, ONE)


def _is_one_outside(value: Node, condition: Node) -> bool:
    return isinstance(value, Select) and value.condition == condition and value.no == ONE


def _function(node: Any, context: Context) -> Node:
    name = FUNCTIONS.get(type(node))
    if name is None:
        raise KernelError(f"{context.program}: {node}: the function {type(node).__name__} cannot be compiled")
    if name in AT_POLYNOMIAL:
        x, *coefficients = node.args
        return Map(name, (lower(x, context), *(_in_digits(value, context) for value in coefficients)))
    values = [lower(argument, context) for argument in node.args]
    if name in STEEP:
        values = [tamed(argument, value, context) for argument, value in zip(node.args, values, strict=True)]
    return Map(name, tuple(values))


def _log(node: Any, context: Context) -> Node:
    """A logarithm; of what a bracket multiplies it is -inf where that fails, and log(0) is not met on the way."""
    factors = Mul.make_args(node.args[0])
    held = sympy.And(*(factor.args[0] for factor in factors if is_bracket(factor)))
    if held == sympy.true:
        return _function(node, context)
    rest = sympy.log(Mul(*(factor for factor in factors if not is_bracket(factor))))
    # Outside, the top of an index set may be -inf; nothing is to be subtracted from that.
    inside = replace(context.within(held), finite_tops=True)
    return Select(lower_condition(held, context), lower(rest, inside), MINUS_INFINITY)


def _in_digits(number: Expr, context: Context) -> Node:
    """A number that is no short fraction in the digits of double precision.

    Raises:
        KernelError: it is beyond the largest.
    """
    if number.is_Rational and is_short(number):
        return _number(number, context)
    value = float(abs(number).evalf(30))
    if value == float("inf"):
        raise KernelError(
            f"{context.program}: the number {number.evalf(5)} is beyond the largest of double precision, 1.8e308; "
            "scale what it multiplies, or work with its logarithm"
        )
    return Literal(-1 if number.is_negative else 1, 1, repr(value))


FUNCTIONS: dict[type, str] = {
    sympy.log: "log",
    sympy.erf: "erf",
    sympy.erfc: "erfc",
    sympy.tanh: "tanh",
    sympy.sinh: "sinh",
    sympy.cosh: "cosh",
    sympy.sin: "sin",
    sympy.cos: "cos",
    sympy.atan: "atan",
    sympy.sign: "sign",
    Softplus: "softplus",
    Logistic: "logistic",
    LogisticSlope: "logistic_slope",
    ExpAt: "exp_at",
    LogisticAt: "logistic_at",
    LogisticSlopeAt: "logistic_slope_at",
    ErfComplement: "erfc",
    NormalCdf: "normal_cdf",
    ScaledCdf: "scaled_normal_cdf",
}
AT_POLYNOMIAL = frozenset({"exp_at", "logistic_at", "logistic_slope_at"})
STEEP = frozenset({"log", "sinh", "cosh"})  # functions that warn at some finite argument


# ---------------------------------------------------------------------------------------------------------------------
# Conditions.


def lower_condition(node: Any, context: Context) -> Node:
    """The node for a condition, an array of truth values; flags stay on the host.

    It decides where other values are wanted, so that its own are wanted everywhere.
    """
    context = context.everywhere()
    if isinstance(node, BooleanAtom):
        return Literal(1, 1, str(node))  # of an index set that nothing is in, or that leaves nothing out
    if isinstance(node, Flag):
        return Option(str(node.name))
    if isinstance(node, (sympy.And, sympy.Or, sympy.Not)):
        name = {sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[type(node)]
        # A flag comes first: it is known before any array is touched.
        parts = sorted(node.args, key=lambda part: bool(free_indices(part)))
        operands = [lower_condition(part, context) for part in parts]
        result = operands[0] if name != "not" else Map("not", (operands[0],))
        for operand in operands[1:]:
            result = Map(name, (result, operand))
        return result
    if isinstance(node, Relational):
        # Written so that the indices come in the order of the result's axes: i >= j for a result over (i, j), and a
        # number last: x > 0.
        ranks = [
            min((context.order.index(i) for i in free_indices(s) if i in context.order), default=len(context.order))
            + (0 if free_indices(s) else 1)
            for s in node.args
        ]
        relation = node.reversed if ranks[0] > ranks[1] else node
        return Map(COMPARISONS[type(relation)], tuple(position(side, context) for side in relation.args))
    raise KernelError(f"{context.program}: {node}: expected a condition")


COMPARISONS: dict[type, str] = {
    sympy.StrictGreaterThan: "gt",
    sympy.GreaterThan: "ge",
    sympy.StrictLessThan: "lt",
    sympy.LessThan: "le",
    sympy.Equality: "eq",
    sympy.Unequality: "ne",
}


def _where(node: Any, context: Context) -> Node:
    condition, yes, no = node.args
    branches = lower(yes, context.within(condition)), lower(no, context.within(sympy.Not(condition)))
    return Select(lower_condition(condition, context), *branches)


def _finite(node: Any, context: Context) -> Node:
    value = lower(node.args[0], context)
    return Select(Map("ne", (value, MINUS_INFINITY)), value, ZERO)


def _largest(node: Any, context: Context) -> Node:
    first, *rest = (lower(argument, context) for argument in node.args)
    for other in rest:
        first = Select(Map("ge", (first, other)), first, other)
    return first


def _delta(node: Any, context: Context) -> Node:
    row, column = node.args[:2]
    if isinstance(row, Index) and isinstance(column, Index) and row.extent == column.extent:
        size(row.extent, context)
        return Identity(row, column)
    sides = sorted(node.args[:2], key=lambda side: not free_indices(side))
    return Select(Map("eq", tuple(position(side, context) for side in sides)), ONE, ZERO)


Rule = Callable[[Any, Context], Node]
RULES: tuple[tuple[Any, Rule], ...] = (
    ((sympy.Rational, sympy.Float), _number),
    (sympy.NumberSymbol, lambda node, _context: Literal(1, 1, str(node))),
    (Dim, size),
    (Scalar, _scalar),
    (Index, lambda node, _context: Position(node)),
    (Indexed, _entry),
    (Add, _add),
    (Mul, _mul),
    (Pow, _pow),
    (sympy.exp, exponentials.lower_exp),
    (Defined, exponentials.lower_logsumexp),
    (sympy.Sum, contractions.lower_sum),
    (sympy.Product, contractions.lower_product),
    (KroneckerDelta, _delta),
    (Where, _where),
    (Largest, _largest),
    (Finite, _finite),
    ((Weight, Whole), lambda node, context: lower(node.args[0], context)),
    (sympy.log, _log),
    (sympy.Function, _function),
)
