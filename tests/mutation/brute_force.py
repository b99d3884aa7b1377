"""The value of an expression at one point, by loops, to 60 digits: the judge of counterexamples.

It reads each node off its definition (a softmax is a quotient of two loops) and shares no code with the prover, the
evaluator or the line of Python that a counterexample prints. Entries of defined names are computed from their
definitions. What costs time is remembered; nothing else is clever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import sympy
from sympy import Indexed, KroneckerDelta
from sympy.core.relational import Relational

from derive.binders import free_indices
from derive.functions import Defined
from derive.language import Dim, Flag, Index, Scalar, Where
from derive.program import Program
from derive.statements import Claim
from derive.symbols import size_at

DIGITS = 60
REMEMBERED = (sympy.Sum, sympy.Product, Defined)
Places = Mapping[str, int]  # by the names of indices: a name has one meaning wherever it is in scope


class NoValueError(ArithmeticError):
    """The expression has no value here."""


class BruteForce:
    """A program at the sizes and inputs of a counterexample.

    A bracket or delta that is 0 ends a product, so that what a mask excludes need not have a value; with `strict`, each
    factor needs one.
    """

    def __init__(
        self, program: Program, sizes: Mapping[str, int], inputs: Mapping[str, Any], *, strict: bool = False
    ) -> None:
        self.sizes, self.inputs, self.strict = sizes, inputs, strict
        self.definitions = {definition.name: definition for definition in program.definitions}
        self.real = mpmath.MPContext()
        self.real.dps = DIGITS
        self.readers: dict[type, Reader] = {}
        self.free: dict[Any, tuple[str, ...]] = {}
        self.known: dict[Any, Any] = {}

    def value(self, node: Any, places: Places) -> Any:
        """The value with the given free indices at the given places."""
        reader = self.readers.get(type(node))
        if reader is None:
            reader = self.readers[type(node)] = next(reader for kind, reader in READERS if isinstance(node, kind))
        if not isinstance(node, REMEMBERED):
            return reader(self, node, places)
        if node not in self.free:
            self.free[node] = tuple(sorted(index.name for index in free_indices(node)))
        key = node, tuple(places[name] for name in self.free[node])
        if key not in self.known:
            self.known[key] = reader(self, node, places)
        return self.known[key]

    def holds(self, condition: Any, places: Places) -> bool:
        """Whether a condition holds; an index that stands in it alone stands for all."""
        rest = sorted((index for index in free_indices(condition) if index.name not in places), key=str)
        return all(self.value(condition, inner) for inner in self.everywhere(rest, places))

    def has_value(self, claim: Claim, places: Places) -> bool:
        """Whether both sides of a claim have a value, and its conditions hold."""
        try:
            for side in (claim.left, claim.right):
                self.value(side, places)
            return all(self.holds(condition, places) for condition in claim.given)
        except ArithmeticError:
            return False

    # -- leaves ------------------------------------------------------------------------------------------------------

    def number(self, node: Any, _places: Places) -> Any:
        exact = sympy.Rational(str(node)) if isinstance(node, sympy.Float) else node
        return self.real.mpf(int(exact.p)) / int(exact.q)

    def size(self, extent: Any, places: Places) -> int:
        return self.sizes[extent.name] if isinstance(extent, Dim) else int(self.value(extent, places))

    def scalar(self, node: Any, _places: Places) -> Any:
        if node.name in self.definitions:
            return self.value(self.definitions[node.name].body, {})
        given = self.inputs[node.name]
        return given if isinstance(given, bool) else self.exact(given)

    def exact(self, given: int | Fraction) -> Any:
        return self.real.mpf(Fraction(given).numerator) / Fraction(given).denominator

    def entry(self, node: Any, places: Places) -> Any:
        at = tuple(
            places[part.name] if isinstance(part, Index) else int(self.value(part, places)) for part in node.indices
        )
        name = node.base.label.name
        if (name, at) not in self.known:
            for axis, (place, size) in enumerate(zip(at, node.base.shape, strict=True)):
                if not 0 <= place < self.size(size_at(size, node.indices[:axis]), places):
                    raise NoValueError(f"{node} at {at}")
            self.known[name, at] = self.read(name, at)
        return self.known[name, at]

    def read(self, name: str, at: tuple[int, ...]) -> Any:
        """The entry of a definition or of an input."""
        definition = self.definitions.get(name)
        if definition is not None:
            names = (index.name for index in definition.indices)
            return self.value(definition.body, dict(zip(names, at, strict=True)))
        table = self.inputs[name]
        for place in at:
            table = table[place]
        return self.exact(table)

    # -- operations --------------------------------------------------------------------------------------------------

    def power(self, node: Any, places: Places) -> Any:
        base, exponent = (self.value(part, places) for part in node.args)
        whole = exponent == int(exponent)
        if (base == 0 and exponent < 0) or (base < 0 and not whole):
            raise NoValueError(str(node))
        return base ** (int(exponent) if whole else exponent)

    def product(self, node: Any, places: Places) -> Any:
        for factor in node.args:
            bracket = isinstance(factor, (KroneckerDelta, Where)) and not self.strict
            if bracket and self.value(factor, places) == 0:
                return self.real.mpf(0)
        return self.real.fprod(self.value(factor, places) for factor in node.args)

    def everywhere(self, bound: Sequence[Index], places: Places) -> Iterator[Places]:
        if not bound:
            yield places
            return
        outer = next(index for index in bound if not free_indices(index.extent) & set(bound))
        rest = [index for index in bound if index != outer]
        for place in range(self.size(outer.extent, places)):
            yield from self.everywhere(rest, {**places, outer.name: place})

    def loop(self, node: Any, places: Places) -> Any:
        bound = [limit[0] for limit in node.limits]
        values = [self.value(node.function, inner) for inner in self.everywhere(bound, places)]
        return self.real.fsum(values) if isinstance(node, sympy.Sum) else self.real.fprod(values)

    def defined(self, node: Any, places: Places) -> Any:
        _, body, bound, place, condition = node.args
        at = int(self.value(place, places)) if node.positional else -1
        spots = [{**places, bound.name: spot} for spot in range(self.size(bound.extent, places))]
        counted = {spot[bound.name]: self.value(body, spot) for spot in spots if self.value(condition, spot)}
        if not counted:
            raise NoValueError(str(node))
        real = self.real
        if node.name in ("mean", "variance"):
            middle = real.fsum(counted.values()) / len(counted)
            spread = real.fsum((value - middle) ** 2 for value in counted.values()) / len(counted)
            return middle if node.name == "mean" else spread
        normaliser = real.fsum(real.exp(value) for value in counted.values())
        if node.name == "logsumexp":
            return real.log(normaliser)
        if node.name == "log_softmax":
            return self.value(body, {**places, bound.name: at}) - real.log(normaliser)
        if node.name == "softmax":
            return real.exp(counted[at]) / normaliser if at in counted else real.mpf(0)
        raise TypeError(node.name)

    def function(self, node: Any, places: Places) -> Any:
        argument = self.value(node.args[0], places)
        name = node.func.__name__
        if name == "log" and argument <= 0:
            raise NoValueError(str(node))
        return {"Abs": abs, "sign": self.real.sign}.get(name, getattr(self.real, name, None))(argument)

    def extreme(self, node: Any, places: Places) -> Any:
        values = [self.value(part, places) for part in node.args]
        return max(values) if isinstance(node, sympy.Max) else min(values)

    def compared(self, node: Any, places: Places) -> bool:
        left, right = (self.value(part, places) for part in node.args)
        if abs(left - right) <= self.real.mpf(10) ** (10 - DIGITS) * max(1, abs(left), abs(right)):
            return isinstance(node, (sympy.Eq, sympy.Le, sympy.Ge))
        if isinstance(node, (sympy.Eq, sympy.Ne)):
            return isinstance(node, sympy.Ne)
        return bool(left < right if isinstance(node, (sympy.Lt, sympy.Le)) else left > right)


Reader = Callable[[BruteForce, Any, Places], Any]
READERS: tuple[tuple[Any, Reader], ...] = (
    ((sympy.Rational, sympy.Float), BruteForce.number),
    (type(sympy.pi), lambda world, _node, _places: +world.real.pi),
    (type(sympy.E), lambda world, _node, _places: +world.real.e),
    (type(sympy.true), lambda _world, _node, _places: True),
    (type(sympy.false), lambda _world, _node, _places: False),
    (Dim, lambda world, node, places: world.real.mpf(world.size(node, places))),
    (Index, lambda world, node, places: world.real.mpf(places[node.name])),
    ((Scalar, Flag), BruteForce.scalar),
    (Indexed, BruteForce.entry),
    (sympy.Add, lambda world, node, places: world.real.fsum(world.value(term, places) for term in node.args)),
    (sympy.Mul, BruteForce.product),
    (sympy.Pow, BruteForce.power),
    ((sympy.Sum, sympy.Product), BruteForce.loop),
    (Defined, BruteForce.defined),
    (
        KroneckerDelta,
        lambda world, node, places: world.real.mpf(
            int(world.value(node.args[0], places) == world.value(node.args[1], places))
        ),
    ),
    (Where, lambda world, node, places: world.value(node.args[1 if world.value(node.args[0], places) else 2], places)),
    (Relational, BruteForce.compared),
    (sympy.And, lambda world, node, places: all(world.value(part, places) for part in node.args)),
    (sympy.Or, lambda world, node, places: any(world.value(part, places) for part in node.args)),
    (sympy.Not, lambda world, node, places: not world.value(node.args[0], places)),
    ((sympy.Max, sympy.Min), BruteForce.extreme),
    (sympy.Function, BruteForce.function),
)
