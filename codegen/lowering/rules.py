"""From the body of a definition to kernel nodes.

Third stage of the compiler, after `codegen.stability.rules`. One row of RULES for each kind of SymPy node, read from
top to bottom. What needs care is done by the rules and nowhere else: products become contractions in an order chosen by
size, brackets become selections, look-ups gathers and deltas scatters. `codegen.lowering.scattering.lower_definition`
is where it begins.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Add, Indexed, KroneckerDelta, Mul, Pow

from codegen.ir.nodes import Literal, Position
from codegen.lowering import arithmetic, contractions, exponentials, leaves, selections
from codegen.lowering.context import Rule, lower
from codegen.stability.functions import Finite, Largest, LogOfChance, Weight, Whole
from derive.functions import Defined
from derive.language import Dim, Index, Scalar, Where

RULES: tuple[tuple[Any, Rule], ...] = (
    ((sympy.Rational, sympy.Float), leaves.lower_number),
    (sympy.NumberSymbol, lambda node, _context: Literal(1, 1, str(node))),
    (Dim, leaves.size),
    (Scalar, leaves.lower_scalar),
    (Index, lambda node, context: Position(node, context.placing)),
    (Indexed, leaves.lower_entry),
    (Add, arithmetic.lower_add),
    (Mul, arithmetic.lower_mul),
    (Pow, arithmetic.lower_pow),
    (sympy.exp, exponentials.lower_exp),
    (Defined, exponentials.lower_logsumexp),
    (sympy.Sum, contractions.lower_sum),
    (sympy.Product, contractions.lower_product),
    (KroneckerDelta, selections.lower_delta),
    (Where, selections.lower_where),
    (Largest, selections.lower_largest),
    (Finite, selections.lower_finite),
    ((Weight, Whole), lambda node, context: lower(node.args[0], context)),
    (sympy.log, arithmetic.lower_log),
    (LogOfChance, arithmetic.lower_log_of_chance),
    (sympy.Function, arithmetic.lower_function),
)
