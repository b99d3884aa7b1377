"""What an error of Python's, NumPy's, PyTorch's or SymPy's in a file of statements is about, and what to write instead.

Symbols by themselves answer in the words of the language (`derive.foreign`). An expression that is made of them is
SymPy's own, and errors about it say what Python was asked, not how a statement says it; one table adds that.
"""

from __future__ import annotations

FUNCTIONS = (
    "NumPy, math and PyTorch compute with numbers, and statements are made of symbols; write gradproof's functions in "
    "place of theirs: from gradproof import Max, Sum, exp, log, mean, sigmoid, softmax, sqrt, tanh, where"
)
LETTERS = (
    "sizes and values of a statement stay letters; write Sum(f, i) or Product(f, i) over an index in place of a loop"
)
ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (  # parts of an error's text, and what to write
    (
        ("truth value of Relational",),
        "Python asks conditions whether they are true when they are chained (0 < y < 1) or stand in `and`, `or`, "
        "`not`, `if`, max(...) or min(...); write And(0 < y, y < 1), Or, Not, where(condition, yes, no), Max or Min",
    ),
    (
        ("loop of ufunc does not support", "ufunc '", "must be Tensor, not", "matmul: Input operand", "einstein sum"),
        FUNCTIONS,
    ),
    (("Cannot convert expression to float", "Cannot convert complex to float"), FUNCTIONS),
    (("Cannot convert symbols to int", "Cannot round symbolic"), LETTERS),
    (("object is not iterable", "cannot be interpreted as an integer", "has no len()"), LETTERS),
    (
        ("expecting bool or Boolean, not",),
        "And, Or and Not are of conditions; compare the value, as in x[i] > 0",
    ),
    (
        (": 'StrictLessThan'", ": 'LessThan'", ": 'StrictGreaterThan'", ": 'GreaterThan'", "and 'StrictLessThan'",
         "and 'LessThan'", "and 'StrictGreaterThan'", "and 'GreaterThan'", "Equality", "Unequality"),
        "a condition is no number; iverson(condition) is 1 where it holds, and where(condition, yes, no) selects",
    ),
    (
        ("unsupported operand type(s) for @",),
        "a product of matrices is a sum over an index, Sum(x[i, k]*y[k, j], k), or matrix(x) @ matrix(y)",
    ),
    (
        ("'IndexedEntry' object is not subscriptable",),
        "an entry has no further axes; write all indices together, x[i, j]",
    ),
    (
        ("object is not callable",),
        "indices stand in square brackets, x[i]",
    ),
    (
        ("'IndexedEntry' object has no attribute", "'Add' object has no attribute", "'Mul' object has no attribute",
         "'Pow' object has no attribute", "'Sum' object has no attribute"),
        "what NumPy has as methods are functions over indices here: Sum(f, i), mean(f, over=i), exp(f)",
    ),
    (
        ("Sum requires values for lower and upper bounds",),
        "this is SymPy's Sum; write from gradproof import Sum, which sums over the whole range of an index",
    ),
)  # fmt: skip


def advice_on(error: BaseException) -> str:
    """What to write instead, to stand behind the text of an error; nothing where that is not known, or it is ours."""
    if hasattr(error, "exit_code"):
        return ""
    text = str(error)
    return next((f"; {advice}" for parts, advice in ADVICE if any(part in text for part in parts)), "")
