"""Names of exponentials are written in where something is divided by them, or a logarithm or root is taken of them.

The first of the algebraic passes (`codegen.algebra.passes`), on the statement: what is differentiated is what it
leaves. A name stands for a number, and exp(1e4) is none; a share of exp(-1e4) is 0. Written in, the exponential meets
the factors of its reader, and `codegen.stability.rules` does the rest:

    Z = Sum(exp(x[j]), j)   p = exp(x[i]) / Z     p = exp(x[i]) / Sum(exp(x[j]), j)         the softmax of x
    E = exp(x)              p = E[i] / Sum(E[j], j)   the same
    p = softmax(x)          L = -log(p[k])        L = -log(softmax(x)[k])                   logsumexp(x) - x[k]
    p = sigmoid(x)          L = -log(1 - p)       L = -log(1 - 1/(1 + exp(-x)))             softplus(x)
    p = softmax(x)          L = p[k]^(1/2)        L = softmax(x)[k]^(1/2)                   exp((x[k] - logsumexp(x))/2)
    p = softmax(x)          L = p[k]^q            softmax(x)[k]^q                       exp(q (x[k] - logsumexp(x)))
    p = Product(exp(x[j]) y[j], j)                p = exp(Sum(x[j], j)) Product(y[j], j)
    t = tanh(x)             L = -log(1 - t^2)     L = -log(1 - tanh(x)^2)      2 (x + softplus(-2x) - log(2))
    p = softmax(x)          L = -log(1 - p[k])    L = log(1 + exp(x[k]) / Sum([j != k] exp(x[j]), j))
    p = softmax(x)          L = (1 - p[k])^q      exp(-q log(1 + exp(x[k]) / Sum([j != k] exp(x[j]), j)))
    p = softmax(x)   r = p[k]   L = -log(r)       -log(softmax(x)[k])          as by p itself
    l = log_softmax(x)      L = -log(1 - exp(l[k]))       as by p, of which l is the logarithm
    h = exp(x)              L = log(1 - exp(-h))  log(1 - exp(-exp(x)))             about x where that is far below 0
    p = sigmoid(x[k]) L = log(p[1] - p[0])        softplus(-x[1]), softplus(x[0]), log(1 - exp(x[0] - x[1]))
    p = sigmoid(x)   q = y p + (1 - y)(1 - p)   L = -log(q)      log of two exponentials, relative to the larger
    y = Sum(x[j]^p, j)^(1/p)   where x > 0        y = Sum(exp(p log(x[j])), j)^(1/p)      exp(logsumexp(p log(x))/p)
    p = where(c, exp(x), 0)                       p = [c] exp(x)               as under a masked sum
    p = where(c, exp(x), exp(y))                  p = exp(where(c, x, y))
    L = log(where(c, exp(x), y))                  L = where(c, log(exp(x)), log(y))    x where c holds

Their slopes are in log space then as well: that of softplus is a logistic function, where p'/(1 - p) would be 0/0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Pow, S

from codegen.algebra.complements import spread, without_own_term
from codegen.algebra.gaps import gaps, log_of_gap
from codegen.algebra.networks import names_in
from codegen.algebra.powers import as_powers_meet, is_power, with_sum_in_log_space
from codegen.algebra.rewriting import Changes, Definitions, Rewrite, Setting, name_of, written_in
from derive.binders import free_indices, map_children, scope_of, unshadowed
from derive.functions import unfold
from derive.language import Scalar, Where, is_bracket, iverson
from derive.normal.signs import reasons_positive
from derive.statements import Definition


def in_log_space(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions with names of exponentials written in where they divide, or have their logarithm taken."""
    rewrites = log_space_rewrites(definitions, setting.forward)
    bodies = {rewrite.definition.name: rewrite.body for rewrite in rewrites}
    kept: list[Definition] = []
    read = set(setting.wanted)
    for definition in reversed(definitions):
        if definition.name in read:
            body = bodies.get(definition.name, definition.body)
            kept.insert(0, replace(definition, body=body))
            read |= names_in(body)
    return tuple(kept), rewrites


@dataclass
class Exponentials:
    """The names of exponentials so far, what was written in, and which of the names may overflow.

    `logarithms` are names of the logarithms of such: 1 less the exponential of one is 1 less a share.

    A share of a sum, such as a softmax or a sigmoid, is at most 1. Its logarithm needs its exponents; to divide by it,
    or by a sum with it, is no worse than to divide by a small number.
    """

    known: dict[str, Definition] = field(default_factory=dict)
    large: dict[str, Definition] = field(default_factory=dict)
    logarithms: dict[str, Definition] = field(default_factory=dict)
    met: dict[str, Definition] = field(default_factory=dict)

    def learn(self, definition: Definition, body: Expr) -> None:
        """Remember a definition if it is an exponential, with others of these written in, or a hyperbolic tangent."""
        spelled = unfold(body)
        is_exponential = self.is_exponential(spelled)
        if is_exponential and not self._is_share(spelled):
            self.large[definition.name] = self._spelled_out(definition, body, self.known)
        if is_exponential or isinstance(spelled, sympy.tanh) or self._is_made_of_known(spelled):
            self.known[definition.name] = self._spelled_out(definition, body, self.known)
        elif any(self._is_logarithm(term) for term in Add.make_args(spelled)):
            self.logarithms[definition.name] = definition

    def _is_logarithm(self, term: Expr) -> bool:
        """Whether a term is the logarithm of exponentials, negative, as that of what a share is divided by."""
        number, value = term.as_coeff_Mul()
        return bool(number == -1) and isinstance(value, sympy.log) and self.is_exponential(value.args[0])

    def _spelled_out(self, definition: Definition, body: Expr, names: dict[str, Definition]) -> Definition:
        """The definition with some of the names in its body written in, which is no use of them yet."""
        met = dict(self.met)
        spelled = replace(definition, body=unshadowed(self.opened(body, names)))
        self.met = met
        return spelled

    def is_exponential(self, body: Expr) -> bool:
        """Whether a body is an exponential, a product or power with one, or a sum of nothing but such and numbers."""
        if isinstance(body, sympy.exp) or is_power(body):
            return True
        if isinstance(body, Pow):
            return self.is_exponential(body.base)
        if isinstance(body, Mul):
            return any(map(self.is_exponential, body.args))
        if isinstance(body, sympy.Sum):
            return self.is_exponential(body.function)
        if isinstance(body, Add):
            terms = [term for term in body.args if not term.is_number]
            return bool(terms) and all(map(self.is_exponential, terms))
        return name_of(body) in self.large

    def _is_made_of_known(self, body: Expr) -> bool:
        """Whether a body is made of what is known: the share of a label, a product or sum of shares, 1 less such.

        A mean by shares is not: what is averaged has either sign, and its logarithm no form of its own.
        """
        if isinstance(body, Mul):
            others = [factor for factor in body.args if not self._is_made_of_known(factor)]
            return len(others) < len(body.args) and all(map(is_weight, others))
        if isinstance(body, Pow):
            return body.exp.is_number and self._is_made_of_known(body.base)
        if isinstance(body, (sympy.Sum, sympy.Product)):
            return self._is_made_of_known(body.function)
        if isinstance(body, Where):
            return all(branch.is_number or self._is_made_of_known(branch) for branch in body.args[1:])
        if isinstance(body, Add):
            terms = [term for term in body.args if not term.is_number]
            return self._is_made_of_known(terms[0]) if len(terms) == 1 else all(map(self._is_mixed, terms))
        return name_of(body) in self.known

    def _is_mixed(self, term: Expr) -> bool:
        """Whether a term of a mixture is what is known times entries, or 1 less such, as in y p + (1 - y)(1 - p)."""
        others = [factor for factor in Mul.make_args(term) if not self._is_made_of_known(factor)]
        return len(others) < len(Mul.make_args(term)) and all(map(is_entry_or_rest, others))

    def _is_share(self, body: Expr) -> bool:
        """Whether a body is divided by a sum of exponentials."""
        factors = Mul.make_args(body)
        return any(
            isinstance(part, Pow) and part.exp.is_negative and self.is_exponential(part.base) for part in factors
        )

    def with_conditions_apart(self, node: Any) -> Any:
        """The expression with exponentials that are selected as exponentials, the condition a factor or inside."""
        if isinstance(node, sympy.log) and isinstance(node.args[0], Where):
            condition, *branches = node.args[0].args
            if any(map(is_in_log_space, branches)) and S.Zero not in branches:
                node = Where(condition, *map(sympy.log, branches))
        inner = map_children(node, self.with_conditions_apart)
        if not isinstance(inner, Where):
            return inner
        condition, *branches = inner.args
        exponents = [S.Zero if branch == 1 else exponent_of(branch) for branch in branches]
        if None not in exponents and any(branch != 1 for branch in branches):
            return sympy.exp(Where(condition, *exponents))
        for branch, other, holds in zip(branches, branches[::-1], (condition, sympy.Not(condition)), strict=True):
            if other == 0 and self.is_exponential(unfold(branch)):
                return iverson(holds) * branch
        return inner

    def resolved(self, node: Any) -> Any:
        """The expression with exponentials written in where they divide, or have their logarithm taken."""
        if isinstance(node, Mul):
            parts = [self._divided(factor) for factor in node.args]
            if any(new != old for new, old in zip(parts, node.args, strict=True)):
                # What is divided has the same exponentials: by themselves they would still overflow.
                names = self.known if any(map(self._divides_by_mixture, node.args)) else self.large
                return node.func(*as_powers_meet([self.opened(self.resolved(part), names) for part in parts]))
            terms = [term for part in node.args if isinstance(part, Add) for term in part.args]
            if any(self._divides_by_mixture(factor) for term in terms for factor in Mul.make_args(term)):
                node = node.func(*(part if isinstance(part, Add) else self.opened(part, self.known) for part in parts))
        if isinstance(node, Pow):
            node = self._rooted(self._divided(node))
        if isinstance(node, sympy.log):
            node = log_of_gap(with_sum_in_log_space(spread(self.opened(node.args[0], self.known))))
        if isinstance(node, Where):
            condition, yes, no = node.args
            return Where(condition, held(self.resolved(yes), condition), self.resolved(no))
        return map_children(node, self.resolved)

    def _divided(self, node: Any) -> Any:
        """A negative power with the exponentials of its base written in; anything else as it is."""
        if not isinstance(node, Pow) or not node.exp.is_negative:
            return node
        base = self.opened(node.base, self.known if self._divides_by_mixture(node) else self.large)
        return with_sum_in_log_space(base) ** node.exp

    def _divides_by_mixture(self, node: Any) -> bool:
        """Whether a factor divides by a mixture of shares: where all are small, what is divided is, too."""
        if not isinstance(node, Pow) or not node.exp.is_negative:
            return False
        name = name_of(node.base)
        body = unfold(self.known[name].body) if name in self.known else node.base
        is_sum = isinstance(body, Add) and len([term for term in body.args if not term.is_number]) > 1
        return is_sum and all(map(self._is_mixed, body.args))

    def _rooted(self, node: Any) -> Any:
        """A power that is no whole number with the exponentials that are factors of its base written in."""
        if not isinstance(node, Pow) or node.exp.is_integer:
            return node
        rest = self._others(node.base)
        if rest is not None:  # at a share of 1 the slope of the root would be infinity times 0
            return sympy.exp(node.exp * sympy.log(rest))
        factors = [
            factor if isinstance(factor, Add) else self.opened(factor, self.known)
            for factor in Mul.make_args(node.base)
        ]
        base = Mul(*factors)
        return self._share_to_a_power(unfold(base), node.exp) or with_sum_in_log_space(base) ** node.exp

    def _others(self, base: Any) -> Expr | None:
        """What a share leaves of 1, by the other terms of its sum; None for anything else."""
        if not isinstance(base, Add):
            return None
        met = dict(self.met)
        spelled = self.opened(base, self.known)
        rest: Expr = without_own_term(spelled)
        if rest == spelled:
            self.met = met
            return None
        return rest

    def _share_to_a_power(self, base: Expr, power: Expr) -> Expr | None:
        """exp(p (x - log(Z))) for the power of a share exp(x)/Z; None for what is none, or raised to a number.

        Its slope has the same x - log(Z), where that of the power has x and log(Z) in different sums.
        """
        exponents: list[Expr] = []
        for factor in Mul.make_args(base):
            raised = exponent_of(factor)
            if raised is None and not (isinstance(factor, Pow) and self.is_exponential(factor.base)):
                return None
            exponents.append(raised if raised is not None else sympy.log(factor.base) * factor.exp)
        return None if power.is_number or not self._is_share(base) else sympy.exp(power * Add(*exponents))

    def opened(self, node: Any, names: dict[str, Definition]) -> Any:
        """An expression with those of the names that are its terms and factors written in."""
        if isinstance(node, (Add, Mul, Pow)):
            is_beside_number = isinstance(node, Add) and node.args[0].is_number and names is self.known
            parts = map(self._of_logarithms, node.args) if is_beside_number else node.args
            return node.func(*(self.opened(part, names) for part in parts))
        if isinstance(node, (sympy.Sum, sympy.Product)):
            return node.func(self.opened(node.function, names), *node.limits)
        if isinstance(node, Where):
            return self._selected(node, names)
        name = name_of(node)
        if name not in names:
            return node
        self.met[name] = names[name]
        return self.opened(written_in(node, names[name]), names)

    def _of_logarithms(self, term: Expr) -> Any:
        """A multiple of the exponential of a named logarithm, or of a named rate, with the name written in."""
        number, value = term.as_coeff_Mul()
        if not isinstance(value, sympy.exp):
            return term
        return number * sympy.exp(self.opened(value.args[0], {**self.logarithms, **self.large}))

    def _selected(self, node: Any, names: dict[str, Definition]) -> Any:
        """A selection with names written in; where it is 0 otherwise, the condition is a factor, as under a mask."""
        condition, *branches = node.args
        yes, no = (self.opened(branch, names) for branch in branches)
        if [yes, no] == branches:
            return node
        if no == 0:
            return iverson(condition) * yes
        return iverson(sympy.Not(condition)) * no if yes == 0 else Where(condition, yes, no)


def log_space_rewrites(definitions: Sequence[Definition], given: Sequence[Definition] = ()) -> tuple[Rewrite, ...]:
    """What the pass does, definition by definition; `given` are those whose values are at hand."""
    exponentials = Exponentials()
    for definition in given:
        exponentials.learn(definition, definition.body)
    rewrites: list[Rewrite] = []
    for definition in definitions:
        exponentials.met.clear()
        added = exponentials.with_conditions_apart(with_exponents_added(definition.body))
        body = exponentials.resolved(added)
        if exponentials.met or body != definition.body:
            body = unshadowed(body)
            changes: Changes = tuple((known.left, known.body) for known in exponentials.met.values())
            rewrites.append(Rewrite(definition, body, changes))
        exponentials.learn(replace(definition, body=added), body)
    return tuple(rewrites)


def held(node: Any, condition: Any) -> Any:
    """An expression where a condition holds: its bracket is 1 there."""
    scope = scope_of(node)
    if node == iverson(condition):
        return S.One
    if scope is not None and free_indices(condition).intersection(scope.bound):
        return node  # there the condition is another one
    return map_children(node, lambda part: held(part, condition))


def is_weight(factor: Any) -> bool:
    """Whether a factor is a number, a condition, or a value that is declared positive."""
    is_declared = isinstance(factor, (Indexed, Scalar)) and reasons_positive(factor) is not None
    return bool(factor.is_number) or is_bracket(factor) or is_declared


def is_entry_or_rest(factor: Any) -> bool:
    """Whether a factor is a value that is given or has a name, or the difference of one and a number."""
    terms = [term.as_coeff_Mul()[1] for term in Add.make_args(factor) if not term.is_number]
    return len(terms) <= 1 and all(isinstance(term, (Indexed, Scalar)) for term in terms)


def exponent_of(node: Any) -> Any:
    """The exponent of what is an exponential and nothing else; None for any other expression."""
    return node.args[0] if isinstance(node, sympy.exp) else None


def is_in_log_space(node: Any) -> bool:
    """Whether the logarithm of an expression has a form of its own: of an exponential, or of a share of a bin."""
    spelled = unfold(node)
    return exponent_of(node) is not None or (isinstance(spelled, Add) and any(True for _ in gaps(spelled)))


def with_exponents_added(node: Any) -> Any:
    """The expression with the exponentials of a product over indices as one, of the sum of their exponents."""
    inner = map_children(node, with_exponents_added)
    if not isinstance(inner, sympy.Product):
        return inner
    factors = Mul.make_args(inner.function)
    exponent = Add(*(factor.args[0] for factor in factors if isinstance(factor, sympy.exp)))
    rest = Mul(*(factor for factor in factors if not isinstance(factor, sympy.exp)))
    if exponent == 0:
        return inner
    bound = {limit[0] for limit in inner.limits}
    extents = [index.extent for index in bound]
    is_fixed = not any(free_indices(part) & bound for part in (rest, *extents))
    others = rest ** Mul(*extents) if is_fixed else inner.func(rest, *inner.limits)
    return sympy.exp(sympy.Sum(exponent, *inner.limits)) * others
