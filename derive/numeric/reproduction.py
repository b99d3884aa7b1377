"""A counterexample as one line of Python that needs nothing but the standard library.

Part of the numeric side, behind `derive.refutation`. The line assigns sizes, inputs and the position, then every
definition that is needed as a memoised function of its indices (so that, as in the mathematics, an entry that nothing
asks for need not have a value), and prints both sides:

    from functools import cache; from math import *; T=2; x=[3/2, -2/3]; p=cache(lambda i: exp(x[i])/...); print(...)

It is written by a printer of its own, a table from node to text, so that it repeats the statement and not the code
that evaluated it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta, Piecewise
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, BooleanFalse, BooleanTrue, Not, Or

from derive.binders import scope_of
from derive.errors import StatementError
from derive.evaluation import needs_of
from derive.functions import Defined, definition_of
from derive.gradient import inline
from derive.language import Dim, Flag, Index, Scalar, Where, is_bracket
from derive.numeric.operations import cases_of, is_mask
from derive.numeric.sampling import Sample
from derive.operators import Expectation, FirstOrder, Limit
from derive.program import Program
from derive.statements import Definition

__all__ = ["python_line"]

FUNCTIONS = frozenset({"exp", "log", "erf", "erfc", "tanh", "sinh", "cosh", "sin", "cos", "atan"})
RESERVED = FUNCTIONS | {
    "sqrt", "sum", "prod", "product", "range", "max", "min", "abs", "print", "cache", "pi", "e", "nan",
}  # fmt: skip

LONGEST = 10**17  # denominators of fractions that are written as such
FAR, STEP = "50", "1e-5"  # what stands for a large number, and for a small step, in double precision

# How tightly a text binds in Python, loosest first.
CHOICE, LOGIC, COMPARED, SUM, PRODUCT, POWER, ATOM = range(7)
SIGNS: dict[type, str] = {
    sympy.Eq: "==", sympy.Ne: "!=", sympy.Lt: "<", sympy.Le: "<=", sympy.Gt: ">", sympy.Ge: ">=",
}  # fmt: skip


def python_line(
    left: Any, right: Any, definitions: Sequence[Definition], sample: Sample, position: Mapping[str, int]
) -> str:
    """One line of Python that prints `left`, its value, `right`, its value at the sample and position."""
    needs = needs_of((left, right), definitions)
    printer = _Printer([known.name for known in (*needs.dims, *needs.inputs, *needs.definitions)], needs.definitions)
    parts = ["from functools import cache"] if needs.definitions else []
    parts.append("from math import *")
    if any(side.has(Expectation) for side in (left, right, *(known.body for known in needs.definitions))):
        parts.append("from itertools import product")
    parts += [f"{printer.global_name(str(size.name))}={sample.sizes[str(size.name)]}" for size in needs.dims]
    for known in needs.inputs:
        parts.append(f"{printer.global_name(str(known.name))}={_literal(sample.inputs[str(known.name)])}")
    for definition in needs.definitions:
        names = ", ".join(printer.index_name(index.name) for index in definition.indices)
        function = f"lambda {names}: " if names else "lambda: "
        parts.append(f"{printer.global_name(definition.name)}=cache({function}{printer.text(definition.body)})")
    parts += [f"{printer.index_name(name)}={place}" for name, place in position.items()]
    parts.append(f"print('left', {printer.text(left)}, 'right', {printer.text(right)})")
    return "; ".join(parts)


def _literal(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, Fraction) and value.denominator > LONGEST:
        return repr(float(value))  # a root, of which more digits are known than a float has
    return str(value) if not isinstance(value, Fraction) or value.denominator > 1 else str(value.numerator)


class _Printer:
    """Prints expressions as Python; names that Python or the line itself uses get an underscore."""

    def __init__(self, names: Sequence[Any], definitions: Sequence[Definition]) -> None:
        self._defined = {definition.symbol for definition in definitions}
        self._program = Program("line", definitions=list(definitions))
        self._globals: dict[str, str] = {}
        own = set(map(str, names))
        made: set[str] = set()
        for name in map(str, names):
            own.discard(name)
            self._globals[name] = self._apart(name, made | own) if name in RESERVED or name in made else name
            own.add(name)
            made.add(self._globals[name])

    @staticmethod
    def _apart(name: str, taken: set[str]) -> str:
        while name in RESERVED or name in taken:
            name += "_"
        return name

    def global_name(self, name: str) -> str:
        """The Python name of a size, an input or a definition."""
        return self._globals[name]

    def index_name(self, name: str) -> str:
        """The Python name of an index."""
        return self._apart(name, set(self._globals.values()))

    def text(self, node: Any, tightness: int = CHOICE) -> str:
        """The expression, in brackets when it binds less tightly than asked for."""
        shown, own = self._render(node)
        return shown if own >= tightness else f"({shown})"

    def _render(self, node: Any) -> tuple[str, int]:
        for kind, rule in RENDERERS:
            if isinstance(node, kind):
                return rule(self, node)
        raise StatementError(f"{node}: {type(node).__name__} cannot be printed as Python")

    # -- leaves ------------------------------------------------------------------------------------------------------

    def number(self, node: Any) -> tuple[str, int]:
        """A rational number or a decimal."""
        if isinstance(node, sympy.Float):
            shown = str(node).rstrip("0") if "e" not in str(node) else str(node)
            shown = shown + "0" if shown.endswith(".") else shown
        else:
            shown = str(node)
        return shown, ATOM if shown.isdigit() or shown.replace(".", "", 1).isdigit() else PRODUCT

    def constant(self, node: Any) -> tuple[str, int]:
        """Pi and e."""
        return {"Pi": "pi", "Exp1": "e"}[type(node).__name__], ATOM

    def truth(self, node: Any) -> tuple[str, int]:
        """True and False."""
        return str(bool(node)), ATOM

    def index(self, node: Any) -> tuple[str, int]:
        """An index."""
        return self.index_name(node.name), ATOM

    def symbol(self, node: Any) -> tuple[str, int]:
        """A size, a flag or a scalar."""
        name = self.global_name(str(node.name))
        return f"{name}()" if node in self._defined else name, ATOM

    def entry(self, node: Any) -> tuple[str, int]:
        """An entry of a table, or a call of a definition."""
        name = self.global_name(str(node.base.name))
        where = [self.text(part) for part in node.indices]
        if node.base in self._defined:
            return f"{name}({', '.join(where)})", ATOM
        return name + "".join(f"[{part}]" for part in where), ATOM

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def add(self, node: Any) -> tuple[str, int]:
        """Terms with their signs."""
        shown = ""
        for term in node.args:
            text = self.text(term, PRODUCT)
            if not shown:
                shown = text
            else:
                shown += f" - {text[1:]}" if text.startswith("-") else f" + {text}"
        return shown, SUM

    def mul(self, node: Any) -> tuple[str, int]:
        """Factors over what is raised to a negative power, where no bracket among them vanishes."""
        coefficient, factors = node.as_coeff_mul()
        brackets = [factor for factor in factors if is_mask(factor)]
        others = [factor for factor in factors if not is_mask(factor)]
        if brackets and others:
            # What a bracket excludes need not have a value, and in Python it might raise an error.
            holds = " and ".join(self._held(bracket) for bracket in brackets)
            return f"({self.text(sympy.Mul(coefficient, *others), LOGIC)} if {holds} else 0)", ATOM
        if isinstance(coefficient, sympy.Float):
            coefficient, factors = sympy.S.One, node.args
        above, below = [], []
        for factor in factors:
            inverse = self._inverted(factor)
            if inverse is None:
                above.append(self.text(factor, POWER))
            else:
                below.append(self.text(inverse, POWER))
        number = sympy.Rational(coefficient)
        if abs(number.p) != 1 or not above:
            above.insert(0, str(abs(number.p)))
        if number.q != 1:
            below.insert(0, str(number.q))
        shown = ("-" if number < 0 else "") + "*".join(above)
        if below:
            shown += "/" + (below[0] if len(below) == 1 else f"({'*'.join(below)})")
        return shown, PRODUCT

    def _held(self, bracket: Any) -> str:
        """The condition of a bracket or delta; of other cases with values 0 and 1, these."""
        return self.text(bracket.args[0] if is_bracket(bracket) else bracket, COMPARED)

    def _inverted(self, factor: Any) -> Any:
        """One over the factor, when the factor is a negative power."""
        if isinstance(factor, sympy.Pow) and factor.exp.is_number and factor.exp.is_negative:
            return 1 / factor
        return None

    def pow(self, node: Any) -> tuple[str, int]:
        """A power, a square root, or one over either."""
        inverse = self._inverted(node)
        if inverse is not None:
            return f"1/{self.text(inverse, POWER)}", PRODUCT
        base, exponent = node.args
        if exponent == sympy.S.Half:
            return f"sqrt({self.text(base)})", ATOM
        return f"{self.text(base, ATOM)}**{self.text(exponent, ATOM)}", POWER

    def function(self, node: Any) -> tuple[str, int]:
        """A function of the math module."""
        name = type(node).__name__
        if name not in FUNCTIONS:
            raise StatementError(f"{node}: {name} cannot be printed as Python")
        return f"{name}({self.text(node.args[0])})", ATOM

    def extreme(self, node: Any) -> tuple[str, int]:
        """Max, Min and Abs."""
        name = {"Max": "max", "Min": "min", "Abs": "abs"}[type(node).__name__]
        return f"{name}({', '.join(self.text(argument) for argument in node.args)})", ATOM

    def sign(self, node: Any) -> tuple[str, int]:
        """The sign, as a difference of two comparisons."""
        inner = self.text(node.args[0], SUM)
        return f"(({inner} > 0) - ({inner} < 0))", ATOM

    def delta(self, node: Any) -> tuple[str, int]:
        """A comparison, which Python counts as 0 or 1."""
        left, right = (self.text(argument, SUM) for argument in node.args[:2])
        return f"({left} == {right})", ATOM

    def loop(self, node: Any) -> tuple[str, int]:
        """A sum or product as a generator, outermost index first."""
        scope = scope_of(node)
        bound = scope.bound if scope is not None else ()
        ranges = " ".join(f"for {self.index_name(index.name)} in range({self.text(index.extent)})" for index in bound)
        name = "sum" if isinstance(node, sympy.Sum) else "prod"
        return f"{name}({self.text(node.function)} {ranges})", ATOM

    def defined(self, node: Any) -> tuple[str, int]:
        """The definition of softmax and its kin."""
        return self._render(definition_of(node))

    # -- operators over an input. A body that changes with the input is written in, not called. -----------------------

    def mean_over_signs(self, node: Any) -> tuple[str, int]:
        """An expectation as the mean over all entries +1 and -1."""
        loops = [f"for {self.global_name(str(known.name))} in {self._signs(known.shape)}" for known in node.inputs]
        entries = " + ".join("*".join(self.text(size, POWER) for size in known.shape) for known in node.inputs)
        body = self.text(inline(node.body, self._program))
        return f"(sum({body} {' '.join(loops)})/2**({entries}))", ATOM

    def _signs(self, shape: Sequence[Any]) -> str:
        values = "(1, -1)" if len(shape) == 1 else self._signs(shape[1:])
        return f"product({values}, repeat={self.text(shape[0])})"

    def far_out(self, node: Any) -> tuple[str, int]:
        """A limit as the value at a large number."""
        name, body = self.global_name(str(node.inputs[0].name)), self.text(inline(node.body, self._program))
        return f"(lambda {name}: {body})({FAR})", ATOM

    def value_and_slope(self, node: Any) -> tuple[str, int]:
        """An expansion to first order, with the slope from a central difference."""
        name, body = self.global_name(str(node.inputs[0].name)), self.text(inline(node.body, self._program))
        slope = f"(f({STEP}) - f(-{STEP}))/(2*{STEP})"
        return f"(lambda f: f(0) + {name}*{slope})(lambda {name}: {body})", ATOM

    # -- conditions --------------------------------------------------------------------------------------------------

    def choice(self, node: Any) -> tuple[str, int]:
        """A conditional expression; where no case is left it is nan."""
        shown = "nan"
        for condition, value in reversed(cases_of(node)):
            if condition == sympy.true:
                shown = self.text(value, LOGIC)
            else:
                shown = f"({self.text(value, LOGIC)} if {self.text(condition, LOGIC)} else {shown})"
        return shown, ATOM

    def comparison(self, node: Any) -> tuple[str, int]:
        """A comparison."""
        return f"{self.text(node.lhs, SUM)} {SIGNS[type(node)]} {self.text(node.rhs, SUM)}", COMPARED

    def logic(self, node: Any) -> tuple[str, int]:
        """And, Or, Not."""
        if isinstance(node, Not):
            return f"not {self.text(node.args[0], ATOM)}", COMPARED
        word = " and " if isinstance(node, And) else " or "
        parts = sorted(node.args, key=sympy.default_sort_key)
        return word.join(self.text(part, COMPARED) for part in parts), LOGIC


Renderer = Callable[[_Printer, Any], tuple[str, int]]
RENDERERS: tuple[tuple[Any, Renderer], ...] = (
    ((sympy.Rational, sympy.Float), _Printer.number),
    (sympy.NumberSymbol, _Printer.constant),
    ((BooleanTrue, BooleanFalse), _Printer.truth),
    (Index, _Printer.index),
    ((Dim, Flag, Scalar), _Printer.symbol),
    (Indexed, _Printer.entry),
    (Defined, _Printer.defined),
    (sympy.Add, _Printer.add),
    (sympy.Mul, _Printer.mul),
    (sympy.Pow, _Printer.pow),
    ((sympy.Sum, sympy.Product), _Printer.loop),
    (KroneckerDelta, _Printer.delta),
    ((Where, Piecewise), _Printer.choice),
    (Relational, _Printer.comparison),
    ((And, Or, Not), _Printer.logic),
    ((sympy.Max, sympy.Min, sympy.Abs), _Printer.extreme),
    (sympy.sign, _Printer.sign),
    (sympy.Function, _Printer.function),
    (Expectation, _Printer.mean_over_signs),
    (Limit, _Printer.far_out),
    (FirstOrder, _Printer.value_and_slope),
)
