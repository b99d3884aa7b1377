"""Stability by construction: exponentials, their sums and logarithms are rewritten before anything is planned.

Second stage of the compiler, after `codegen.algebra.passes`. The body of a definition is mathematics; two bodies that
are equal over the reals may differ by an overflow in floating point. Each rule of the table is an identity that
`derive.prove` decides (a test replays them):

    Sum(exp(f), j)            = exp(logsumexp(f, j))
    Sum(exp(f) * x, j)        = exp(logsumexp(f, j)) * Sum(exp(f - logsumexp(f, j)) * x, j)     over several as well
    Sum(exp(f) * x, j) / Sum(exp(f), j)  = Sum(exp(f - logsumexp(f, j)) * x, j)      also of shares, which may vanish
    Sum(exp(u) * x, j)        = exp(u) * Sum(x, j)        where u does not depend on j
    1 + exp(u)                = exp(softplus(u))          softplus(u) = log(1 + exp(u)) = u + softplus(-u)
    1 - exp(-softplus(u))     = exp(-softplus(-u))
    a exp(u) + b exp(v)       = exp(m) (a exp(u - m) + b exp(v - m))     m = max(u, v); in a denominator or a logarithm
    a exp(u) - a exp(v)       = exp(m) (a expm1(u - m) - a expm1(v - m))     see `codegen.stability.relative`
    exp(u) (a exp(v) + b)     = a exp(u + v) + b exp(u)                  where u has no bound: apart, both may overflow
    exp(u) exp(v)             = exp(u + v)
    (exp(u) x)^p              = exp(p u) x^p              p a letter, x positive
    log(exp(u))               = u
    log(x y)                  = log x + log y             where one factor is an exponential
    sigma(a) - sigma(b)       = tanh((a - b)/2) (sigma(a) sigma(-b) + sigma(-a) sigma(b))
    a + a erf(u)              = a erfc(-u)                erfc(u) = 1 - erf(u), which keeps its digits where it is small
                              = 2 a Phi(sqrt(2) u)        where that argument is free of sqrt(2); Phi the normal cdf
    exp(-softplus(u))         = sigma(-u)                 sigma(u) = 1/(1 + exp(-u)), at last
    exp(u - softplus(u))      = sigma(u)
    exp(x + v - softplus(A + v))  = exp(x - A) sigma(A + v)         A a logsumexp of x: a share, and a logistic function

A scale that met nothing is put back, as in a weighted sum of decays, of logistic functions, or of bells: a term of such
a sum overflows only where the scale does. After the rules any other exponential is only ever taken of a difference such
as S - logsumexp(S), which is at most 0. The kernel for logsumexp subtracts the row's maximum; softplus is the
elementwise case. Nothing is recognised by name: a statement that spells out exp(s)/Sum(exp(s)) gets what `softmax`
gets. What a definition already holds is read from it, exp(y) for y = s - logsumexp(s). At last
`codegen.stability.guards` sees to it that 0 log 0 is 0, `codegen.stability.tails` to what is small, and
`codegen.stability.together` to differences of large numbers that a function is taken of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import sympy
from sympy import Add, Expr, Mul, S

from codegen.stability.bounds import (
    has_exponential,
    is_bounded,
    is_logistic,
    is_share,
    may_overflow,
)
from codegen.stability.comparisons import with_exponents_compared
from codegen.stability.exponents import cancelled, exponential_parts
from codegen.stability.functions import ErfComplement, NormalCdf, Softplus
from codegen.stability.gaps import without_gaps
from codegen.stability.guards import Definitions, guarded
from codegen.stability.named_tails import with_tails_of_names
from codegen.stability.relative import is_difference, relative_to_largest
from codegen.stability.scales import unscaled
from codegen.stability.tails import at_polynomials, near_one, scaled_cdf, with_logistic, without_cosh, without_tanh
from codegen.stability.together import with_differences_whole
from derive.binders import all_names, free_indices, fresh_index, map_children, substitute
from derive.folding import same, unify
from derive.functions import Defined, unfold
from derive.language import Index, entry
from derive.normal.signs import reasons_positive
from derive.statements import Definition


def stable(expression: Expr, known: Sequence[Definition] = ()) -> Expr:
    """The expression rewritten so that no intermediate value overflows where the result does not.

    `known` are definitions already computed: a logsumexp that one of them is defined as is read from it.
    """
    by_name = {definition.symbol: _with_stable_exponent(definition) for definition in known}
    in_full = {definition.symbol: spelled_stable(definition) for definition in known}
    plain = without_tanh(without_cosh(with_exponents_compared(unfold(expression)), by_name), by_name)
    plain = with_tails_of_names(plain, by_name)
    plain = without_gaps(plain)
    rewritten = _read_exponents(_rewrite(plain, by_name), in_full)
    rewritten = unscaled(rewritten, by_name)
    small = near_one(with_logistic(guarded(rewritten, in_full), by_name))
    return scaled_cdf(at_polynomials(with_differences_whole(small, in_full)), in_full)


def _with_stable_exponent(definition: Definition) -> Definition:
    """The definition of an exponential with an exponent that may be read as it stands; any other as it is."""
    body = definition.body
    if not isinstance(body, sympy.exp) or not body.args[0].has(Defined, sympy.exp):
        return definition
    spelled = spelled_stable(definition)
    return spelled if isinstance(spelled.body, sympy.exp) else definition


@lru_cache(maxsize=2_000)
def spelled_stable(definition: Definition) -> Definition:
    """The definition with a stable body in which nothing is read from others."""
    return Definition(definition.symbol, definition.indices, _rewrite(without_cosh(unfold(definition.body), {}), {}))


def _rewrite(node: Any, known: Definitions) -> Any:
    if isinstance(node, Defined):
        node = unfold(node)
    inner = map_children(node, lambda part: _rewrite(part, known))
    for kind, rule in RULES:
        if isinstance(inner, kind):
            changed = rule(inner, known)
            if changed is not None:
                return changed
    return inner


# ---------------------------------------------------------------------------------------------------------------------
# What is known by name.


def _instances(definition: Definition, wanted: Expr) -> Iterator[Expr]:
    """The entries of a definition that are the wanted expression, up to the names of indices."""
    for binding in unify(definition.body, wanted, {}):
        if binding.keys() >= set(definition.indices):
            yield entry(definition.symbol, [binding[index] for index in definition.indices])


def _logsumexp(body: Expr, index: Index, condition: Any, known: Definitions) -> Expr:
    made = Defined("logsumexp", body, index, index, condition)
    for definition in known.values():
        if isinstance(definition.body, Defined) and definition.body.name == "logsumexp":
            for found in _instances(definition, made):
                return found
    return made


def _read_exponents(node: Any, known: Definitions) -> Any:
    """Exponentials of what a definition already holds, taken of its name."""
    inner = map_children(node, lambda part: _read_exponents(part, known))
    if isinstance(inner, sympy.exp) and isinstance(inner.args[0], Add):
        for definition in known.values():
            if isinstance(definition.body, Add) and definition.body.has(Defined):
                for found in _instances(definition, inner.args[0]):
                    return sympy.exp(found)
    return inner


# ---------------------------------------------------------------------------------------------------------------------
# The rules. What a name stands for is looked at only where an exponential is already there to meet it.


def _sum(node: Any, known: Definitions, *, alone: bool = False) -> Expr | None:
    """A sum with an exponential factor that depends on the index becomes a scaled sum.

    Shares of another sum have their scale already. In a logarithm, or a divisor, they need one of their own: all may
    underflow.
    """
    exponent, brackets, others = exponential_parts(node.function, {})
    bound = {limit[0] for limit in node.limits}
    numbers = [bracket for bracket in brackets if not free_indices(bracket)]
    if numbers and others and exponent != 0:  # what holds for all terms or for none is no index set
        rest = (factor for factor in Mul.make_args(node.function) if factor not in numbers)
        inner = sympy.Sum(Mul(*rest), *node.limits)
        return Mul(*numbers, _sum(inner, known) or inner)
    moving = Add(*(term for term in Add.make_args(exponent) if free_indices(term) & bound))
    fixed = exponent - moving
    if moving == 0:
        return None if fixed == 0 else sympy.exp(fixed) * sympy.Sum(Mul(*brackets, *others), *node.limits)
    if is_logistic(exponent):  # at most 1 as it stands; apart, both factors may be anything
        moving, fixed = exponent, S.Zero
    over = [limit[0] for limit in node.limits if limit[0] in free_indices(moving)]
    # What is true for some value of another summed index only is no condition of a scale that stands before that sum.
    held = [bracket for bracket in brackets if free_indices(bracket) & bound <= set(over)]
    condition = sympy.And(*(bracket.args[0] for bracket in held))
    if len(over) > 1 and brackets:
        return None
    inside = [factor for factor in others if bound & free_indices(factor)]
    outside = Mul(*(factor for factor in others if factor not in inside))
    # Under the remaining sum the inner indices get names of their own: no index is bound inside its own scope.
    is_whole, taken = not inside and len(over) == len(node.limits), set(all_names(node))
    names: dict[Index, Index] = {}
    for index in () if is_whole else over:
        names[index] = fresh_index(index, taken)
        taken.add(names[index].name)
    renamed = [names.get(index, index) for index in over]
    scale = _scale(substitute(moving, names), renamed, substitute(condition, names), known)
    cancels = any(same(other, scale) for other in fixed.atoms(Defined))
    if not cancels and not alone and is_share(exponent, known):
        return None  # of another sum
    if not is_whole:
        weighted = Mul(*brackets, sympy.exp(moving - scale), *inside)
        return outside * sympy.exp(cancelled(fixed + scale)) * sympy.Sum(weighted, *node.limits)
    if condition != sympy.true and cancels:
        return None  # shares of an index set that may be empty: they add up to 1 or to 0
    return outside * sympy.exp(cancelled(fixed + scale))


def _scale(body: Expr, over: Sequence[Index], condition: Any, known: Definitions) -> Expr:
    """The logsumexp of an exponent over some indices, one inside the other."""
    for index in over:
        body = _logsumexp(body, index, condition, known)
    return body


def _add(node: Any, _known: Definitions) -> Expr | None:
    """1 + exp(u) is exp(softplus(u)), and 1 + erf(u) is erfc(-u), also beside other terms."""
    tail = _tail(node)
    if tail is not None:
        return tail
    if len(node.args) == 2 and S.One in node.args:
        other = node.args[1] if node.args[0] == S.One else node.args[0]
        if isinstance(other, sympy.exp):
            return sympy.exp(Softplus(other.args[0]))
    return None


def _tail(node: Expr) -> Expr | None:
    """A sum with a + a erf(u), or a - a sigma(u), which may cancel, with a multiple of a function of the tail."""
    number, rest = node.as_coeff_Add()
    for term in Add.make_args(rest) if number != 0 else ():
        tail = _tail_of(number, *term.as_coeff_Mul())
        if tail is not None:
            return tail + (rest - term)
    return None


def _tail_of(number: Expr, weight: Expr, function: Expr) -> Expr | None:
    """The number plus the weight times the function as a multiple of a tail; None where they do not cancel."""
    if isinstance(function, sympy.exp) and isinstance(-function.args[0], Softplus) and weight == -number:
        return number * sympy.exp(-Softplus(-(-function.args[0]).args[0]))
    if not isinstance(function, sympy.erf) or abs(weight) != abs(number):
        return None
    argument = function.args[0] if weight == number else -function.args[0]
    wide = sympy.sqrt(2) * argument
    if wide.has(sympy.sqrt(2)):
        return number * ErfComplement(-argument)
    return 2 * number * NormalCdf(wide)


def _pow(node: Any, known: Definitions) -> Expr | None:
    base, power = node.args
    if isinstance(base, sympy.exp):
        return sympy.exp(base.args[0] * power) if power != S.One else None
    if not power.is_number and isinstance(base, Mul) and has_exponential(base, known):
        exponent, brackets, others = exponential_parts(base, {})
        if not brackets and all(reasons_positive(other) is not None for other in others):
            # Multiplied out, what is less the whole exponent meets what the exponent is of.
            return sympy.exp(Add(*(part * exponent for part in Add.make_args(power)))) * Mul(*others) ** power
    if power.is_negative and isinstance(base, sympy.Sum):
        scaled = _sum(base, known, alone=True)
        return None if scaled is None else _pow_of_scaled(scaled, power)
    relative = relative_to_largest(base, known) if power.is_negative else None
    return None if relative is None else sympy.exp(power * relative[0]) * relative[1] ** power


def _pow_of_scaled(scaled: Expr, power: Expr) -> Expr:
    """The power of exp(s) times something, the exponential by itself."""
    exponent, brackets, others = exponential_parts(scaled, {})
    return sympy.exp(exponent * power) * Mul(*brackets, *others) ** power


def _scaled_alike(product: Expr, known: Definitions) -> Expr:
    """The product with sums of shares scaled by the logsumexp that another factor divides by."""
    exponent, _, others = exponential_parts(product, {})
    scales = [term.as_coeff_Mul() for term in Add.make_args(exponent)]
    divided = [scale for number, scale in scales if number.is_negative and isinstance(scale, Defined)]
    for factor in others if divided else ():
        base, power = factor.as_base_exp()
        scaled = _sum(base, known, alone=True) if isinstance(base, sympy.Sum) else None
        made = exponential_parts(scaled, {})[0].atoms(Defined) if scaled is not None else ()
        if scaled is not None and any(same(one, other) for one in made for other in divided):
            return _scaled_alike(product / factor * _pow_of_scaled(scaled, power), known)
    return product


def _mul(node: Any, known: Definitions) -> Expr | None:
    explicit = has_exponential(node, known)
    if explicit:
        node = _scaled_alike(node, known)
    exponent, brackets, others = exponential_parts(node, known if explicit else {})
    apart = may_overflow if explicit and is_bounded(exponent, known) else has_exponential
    for place, factor in enumerate(others) if explicit else ():
        if isinstance(factor, Add) and any(apart(term, known) for term in factor.args):
            rest = Mul(*brackets, *others[:place], *others[place + 1 :], sympy.exp(exponent))
            relative = relative_to_largest(factor, known)
            if relative is not None and is_difference(factor, known):
                if free_indices(exponent) >= free_indices(relative[0]):
                    # All is in one exponent then, which may be less the logsumexp of its row.
                    power, rest = sympy.exp(exponent), Mul(*brackets, *others[:place], *others[place + 1 :])
                    terms = [power * term for term in factor.args]
                    joined = Add(*(_mul(term, known) or term for term in terms))
                    relative = relative_to_largest(joined, known) or relative
                scaled = rest * sympy.exp(relative[0]) * relative[1]
                return _mul(scaled, known) or scaled
            return Add(*(_mul(rest * term, known) or rest * term for term in factor.args))
    if len(node.args) - len(brackets) - len(others) < 2:
        return None
    return Mul(*brackets, *others, sympy.exp(exponent))


def _log(node: Any, known: Definitions) -> Expr | None:
    argument = node.args[0]
    if isinstance(argument, sympy.Sum):
        argument = _sum(argument, known, alone=True) or argument
    relative = relative_to_largest(argument, known)
    if relative is not None:
        return relative[0] + sympy.log(relative[1])
    exponent, brackets, others = exponential_parts(argument, {})
    if exponent == 0 or brackets:
        return None
    rest = Mul(*others)
    return exponent if rest == 1 else exponent + sympy.log(rest)


RULES: tuple[tuple[type, Callable[[Any, Definitions], Expr | None]], ...] = (
    (sympy.Sum, _sum),
    (sympy.Add, _add),
    (sympy.Pow, _pow),
    (sympy.Mul, _mul),
    (sympy.log, _log),
)
