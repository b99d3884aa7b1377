"""How operations are written: what Python and both array libraries write alike, and what the runtime adds.

A row is (text with {0}, {1} ... for the operands, precedence of the result, precedence each operand needs). Precedence
is Python's: an operand that binds less tightly is parenthesised.
"""

from __future__ import annotations

from dataclasses import dataclass

TERNARY, OR, AND, NOT, COMPARE, ADD, MUL, UNARY, POWER, POSTFIX, ATOM = range(11)


@dataclass(frozen=True)
class Spelling:
    """How one operation is written: the text, its precedence, and the precedence that its operands must have."""

    text: str
    precedence: int
    operands: tuple[int, ...]


def called(name: str, count: int = 1) -> Spelling:
    """A call with so many arguments."""
    return Spelling(f"{name}({', '.join(f'{{{k}}}' for k in range(count))})", POSTFIX, (TERNARY,) * count)


ARITHMETIC: dict[str, Spelling] = {
    "add": Spelling("{0} + {1}", ADD, (ADD, ADD)),
    "sub": Spelling("{0} - {1}", ADD, (ADD, MUL)),
    "mul": Spelling("{0} * {1}", MUL, (MUL, UNARY)),
    "div": Spelling("{0} / {1}", MUL, (MUL, UNARY)),
    "neg": Spelling("-{0}", UNARY, (UNARY,)),
    "power": Spelling("{0}**{1}", POWER, (POSTFIX, UNARY)),
    "gt": Spelling("{0} > {1}", COMPARE, (ADD, ADD)),
    "ge": Spelling("{0} >= {1}", COMPARE, (ADD, ADD)),
    "lt": Spelling("{0} < {1}", COMPARE, (ADD, ADD)),
    "le": Spelling("{0} <= {1}", COMPARE, (ADD, ADD)),
    "eq": Spelling("{0} == {1}", COMPARE, (ADD, ADD)),
    "ne": Spelling("{0} != {1}", COMPARE, (ADD, ADD)),
    # Conditions are arrays of truth values; a flag of the caller is handled before an array is touched.
    "or": Spelling("({0}) | ({1})", COMPARE, (TERNARY, TERNARY)),
    "and": Spelling("({0}) & ({1})", COMPARE, (TERNARY, TERNARY)),
    "not": Spelling("~({0})", UNARY, (TERNARY,)),
}

# What an array library lacks, a function of the generated runtime.
RUNTIME_FUNCTIONS = (
    "erf", "erfc", "exp_at", "exp_difference", "expit", "logistic_at", "logistic_slope", "logistic_slope_at",
    "normal_cdf", "scaled_normal_cdf", "softplus", "wide_sum", "add_rows", "sum_rows", "dot_rows",
    "turned",
)  # fmt: skip
AT = "({1}, {2}, {3}, {4})"  # the coefficients of a polynomial in {0}
# Passes over an array that one operation of these stands for, of which any other is one.
PASSES = {"exp_at": 3, "exp_difference": 2, "logistic_at": 4, "logistic_slope_at": 4, "scaled_logistic_at": 5}

HOST: dict[str, Spelling] = {
    **ARITHMETIC,
    "or": Spelling("{0} or {1}", OR, (OR, AND)),
    "and": Spelling("{0} and {1}", AND, (AND, NOT)),
    "not": Spelling("not {0}", NOT, (NOT,)),
    "square": Spelling("{0}**2", POWER, (POSTFIX,)),
    **{
        name: called(f"math.{name}")
        for name in (
            *("sqrt", "exp", "expm1", "log", "log1p", "erf", "erfc"),
            *("tanh", "sinh", "cosh", "sin", "cos", "atan"),
        )
    },
    "softplus": Spelling("(max({0}, 0) + math.log1p(math.exp(-abs({0}))))", ATOM, (TERNARY,)),
    "logistic": Spelling("(math.exp(min({0}, 0)) / (1 + math.exp(-abs({0}))))", ATOM, (TERNARY,)),
    "logistic_slope": Spelling("(math.exp(-abs({0})) / (1 + math.exp(-abs({0})))**2)", ATOM, (TERNARY,)),
    "normal_cdf": Spelling("(0.5 * math.erfc(-math.sqrt(0.5) * {0}))", ATOM, (UNARY,)),
    "sign": Spelling("(({0} > 0) - ({0} < 0))", ATOM, (ADD,)),
    "scaled_logistic": Spelling("({0} * math.exp(min({1}, 0)) / (1 + math.exp(-abs({1}))))", ATOM, (MUL, TERNARY)),
    "exp_difference": Spelling("math.exp({0} - {1})", POSTFIX, (ADD, MUL)),
    "finite": Spelling("max({0}, -1.7976931348623157e308)", POSTFIX, (TERNARY,)),
    "at_least_one": Spelling("max({0}, 1)", POSTFIX, (TERNARY,)),
    **{
        name: Spelling(f"{function}({{0}}, {{1}})", POSTFIX, (TERNARY, TERNARY))
        for name, function in {"maximum": "max", "at_least": "max", "minimum": "min", "at_most": "min"}.items()
    },
    "positive": Spelling("({0} or 1)", ATOM, (AND,)),
    "number": Spelling("float({0})", POSTFIX, (TERNARY,)),
}

# Functions of the runtime of both libraries.
OWN: dict[str, Spelling] = {
    "logistic": called("expit"),  # not a name that a program may well have
    **{name: called(name) for name in ("logistic_slope", "normal_cdf")},
    "exp_difference": called("exp_difference", 2),
    "scaled_normal_cdf": called("scaled_normal_cdf", 2),
    **{
        name: Spelling(f"{name}({{0}}, {AT})", POSTFIX, (TERNARY,) * 5)
        for name in ("exp_at", "logistic_at", "logistic_slope_at")
    },
    "scaled_logistic": Spelling("expit({1}, times={0})", POSTFIX, (TERNARY,) * 2),
    "scaled_logistic_at": Spelling("logistic_at({1}, ({2}, {3}, {4}, {5}), times={0})", POSTFIX, (TERNARY,) * 6),
}
OWN_INTO = {name: f"{spelling.text[:-1]}, out={{out}})" for name, spelling in OWN.items()}
