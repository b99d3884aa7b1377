"""Sums, products, powers and elementary functions of one entry.

Part of lowering. Here is decided in what order terms are added and factors multiplied, and what is divided by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
from sympy import Add, Expr, Mul, Pow, Rational, S

from codegen.errors import KernelError
from codegen.ir.nodes import Literal, Map, Node, Option, Read, Select
from codegen.ir.trees import walk
from codegen.lowering.context import MINUS_INFINITY, ONE, ZERO, Context, lower, multiplied, quotient
from codegen.lowering.exponentials import PAIR, exp_where, is_negative, logsumexp_parts, parts_of, rows
from codegen.lowering.leaves import in_digits, is_short
from codegen.lowering.selections import finite_if_asked, lower_condition, tamed
from codegen.stability.functions import (
    ErfComplement,
    ExpAt,
    ExpLess1,
    Logistic,
    LogisticAt,
    LogisticSlope,
    LogisticSlopeAt,
    LogOf1Plus,
    NormalCdf,
    ScaledCdf,
    Softplus,
)
from derive.binders import free_indices
from derive.language import Scalar, is_bracket
from derive.normal.signs import reasons_positive

MOST_BELOW, MOST_ABOVE = 40, 10  # of a log rate: beyond these its chance has no digits of its own


def lower_add(node: Any, context: Context) -> Node:
    """The node for a sum of terms: the largest arrays first, the logarithm of a logsumexp last."""
    common = _common_number(node, context)
    if common is not None:
        return common
    late: list[tuple[bool, Node]] = []
    signed, single = _multiples_of_rows(node, context)
    found, waiting = rows(single)
    for term, scale in found:
        # x - (top + log(total)) as (x - top) - log(total), before anything else is added to x.
        minus = is_negative(term)
        top, logarithm = parts_of(-scale if not minus else scale, context)
        top = finite_if_asked(top, context)
        value = lower(-term if minus else term, context)
        signed.append((minus, Map("sub", (value, top))))
        late.append((not minus, logarithm))
    tops: list[tuple[bool, Node]] = []
    for term in waiting:
        minus = is_negative(term)
        value = -term if minus else term
        number, bare = value.as_coeff_Mul()
        parts = logsumexp_parts(bare, context)
        if parts is None:
            signed.append((minus, lower(value, context)))
        else:
            # top + log(total) - x as (top - x) + log(total): at a large offset the logarithm would round away.
            top = finite_if_asked(parts[0], context) if minus else parts[0]
            scale = lower(number, context)
            tops.append((minus, multiplied([scale, top])))
            late.append((minus, multiplied([scale, parts[1]])))
    signed = _paired(signed) + _differences(tops)
    # The largest arrays first, what is subtracted last: a bias is added to a product, not a product to a bias.
    signed.sort(key=lambda pair: (pair[0], -len(pair[1].axes)))
    (negative, result), *rest = signed
    if negative:
        result = Map("neg", (result,))
    for minus, operand in (*rest, *late):
        result = Map("sub" if minus else "add", (result, operand))
    return result


def _differences(tops: Sequence[tuple[bool, Node]]) -> list[tuple[bool, Node]]:
    """The maxima that are added and those that are subtracted, each with one of the others: they are of one size."""
    added, taken = ([node for minus, node in tops if minus == sign] for sign in (False, True))
    pairs = [(False, Map("sub", pair)) for pair in zip(added, taken, strict=False)]
    return [*pairs, *((False, node) for node in added[len(pairs) :]), *((True, node) for node in taken[len(pairs) :])]


def _common_number(node: Any, context: Context) -> Node | None:
    """A sum in which all arrays have one number, as a/2 - b/2 + 1: the number is multiplied once, (a - b)/2 + 1."""
    arrays = [term for term in node.args if free_indices(term)]
    (number, _), *_ = [term.as_coeff_Mul() for term in arrays or [S.One]]
    alike = all(abs(term.as_coeff_Mul()[0]) == abs(number) for term in arrays)
    is_row = any(logsumexp_parts(term.as_coeff_Mul()[1], context) is not None for term in arrays)
    if len(arrays) < PAIR or abs(number) == 1 or not number.is_Rational or not alike or is_row:
        return None
    total = lower(Add(*(term / abs(number) for term in arrays)), context)
    above, below = ([Literal(int(part))] if part != 1 else [] for part in (abs(number.p), number.q))
    scaled = quotient([total, *above], below)
    rest = [term for term in node.args if term not in arrays]
    return Map("add", (scaled, lower(Add(*rest), context))) if rest else scaled


def _paired(signed: list[tuple[bool, Node]]) -> list[tuple[bool, Node]]:
    """The terms with differences of entries where several are added and several subtracted: (a - b) + (c - d).

    Logarithms of probabilities of whole texts, say, are large and their differences small; a + c is twice as large.
    """
    numbers = [pair for pair in signed if pair[1].is_host]
    arrays = [pair for pair in signed if pair not in numbers]
    fewest = min(sum(minus == sign for minus, _ in arrays) for sign in (False, True))
    is_plain = all(isinstance(node, Read) for _, node in arrays)
    return [*_differences(arrays), *numbers] if is_plain and fewest >= PAIR else signed


def _multiples_of_rows(node: Any, context: Context) -> tuple[list[tuple[bool, Node]], list[Expr]]:
    """The terms that are one multiple of a logsumexp and of others, added up and then multiplied, and what is left.

    c x - c logsumexp(x) as c (x - logsumexp(x)): at a large offset both products round, each for itself.
    """
    split = [_multiple(term) for term in node.args]
    scales = dict.fromkeys(_size(scale) for scale, value in split if logsumexp_parts(value, context) is not None)
    made: list[tuple[bool, Node]] = []
    left = list(node.args)
    for scale in scales:
        members = [n for n, (other, _) in enumerate(split) if scale in (other, -other)]
        if scale == 1 or len(members) < PAIR:
            continue
        total = Add(*(split[n][1] * (split[n][0] / scale) for n in members))
        made.append((False, Map("mul", (lower(scale, context), lower(total, context)))))
        taken = [node.args[n] for n in members]
        left = [term for term in left if term not in taken]
    return made, left


def _multiple(term: Expr) -> tuple[Expr, Expr]:
    """(c, u) for a term c u, c the product of the numbers and the scalars in it."""
    known = [factor for factor in Mul.make_args(term) if factor.is_number or isinstance(factor, Scalar)]
    scale = Mul(*known)
    return scale, term / scale


def _size(scale: Expr) -> Expr:
    """A factor without its sign."""
    return -scale if scale.could_extract_minus_sign() else scale


def lower_mul(node: Any, context: Context) -> Node:
    """The node for a product: numbers on the host, what is divided by last, brackets as one selection."""
    coefficient, rest = node.as_coeff_Mul()
    if coefficient == -1:
        value = lower(rest, context)
        is_sum = context.finite_tops and logsumexp_parts(rest, context) is not None
        return Map("neg", (finite_if_asked(value, context) if is_sum else value,))
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
            above.append(exp_where(factor.args[0], sympy.And(*(b.args[0] for b in brackets)), context))
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


def lower_pow(node: Any, context: Context) -> Node:
    """The node for a power: a root, a square and a reciprocal have operations of their own."""
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


def lower_log(node: Any, context: Context) -> Node:
    """A logarithm; of what a bracket multiplies it is -inf where that fails, and log(0) is not met on the way."""
    factors = Mul.make_args(node.args[0])
    held = sympy.And(*(factor.args[0] for factor in factors if is_bracket(factor)))
    if held == sympy.true:
        return lower_function(node, context)
    rest = sympy.log(Mul(*(factor for factor in factors if not is_bracket(factor))))
    # Outside, the top of an index set may be -inf; nothing is to be subtracted from that.
    inside = replace(context.within(held), finite_tops=True)
    return Select(lower_condition(held, context), lower(rest, inside), MINUS_INFINITY)


def lower_function(node: Any, context: Context) -> Node:
    """The node for a function of one entry."""
    name = FUNCTIONS.get(type(node))
    if name is None:
        raise KernelError(f"{context.program}: {node}: the function {type(node).__name__} cannot be compiled")
    if name in AT_POLYNOMIAL:
        x, *coefficients = node.args
        return Map(name, (lower(x, context), *(in_digits(value, context) for value in coefficients)))
    values = [lower(argument, context) for argument in node.args]
    if name in STEEP:
        values = [tamed(argument, value, context) for argument, value in zip(node.args, values, strict=True)]
    return Map(name, tuple(values))


def lower_log_of_chance(node: Any, context: Context) -> Node:
    """The node for log(1 - exp(-exp(u))), with an argument for each side that has a value there in any type.

    Far below 0 it is u less exp(u)/2, of which no digit of u shows anything; far above, exp(-exp(u)) is 0.
    """
    argument = lower(node.args[0], context)
    near = Map("at_least", (Map("at_most", (argument, ZERO)), Literal(-MOST_BELOW)))
    below = Map("log", (Map("neg", (Map("expm1", (Map("neg", (Map("exp", (near,)),)),)),)),))
    further = Map("at_most", (Map("add", (argument, Literal(MOST_BELOW))), ZERO))
    far = Map("at_most", (Map("at_least", (argument, ZERO)), Literal(MOST_ABOVE)))
    above = Map("log1p", (Map("neg", (Map("exp", (Map("neg", (Map("exp", (far,)),)),)),)),))
    return Select(Map("gt", (argument, ZERO)), above, Map("add", (below, further)))


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
    ExpLess1: "expm1",
    LogOf1Plus: "log1p",
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
STEEP = frozenset({"expm1", "log", "log1p", "sinh", "cosh"})  # functions that warn at some finite argument
