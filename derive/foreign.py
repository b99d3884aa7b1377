"""What Python, NumPy and PyTorch ask of an array, asked of a symbol: refused, with how a statement says it.

Underneath `derive.symbols`, whose classes inherit `Symbolic`. A symbol stands for all values at once: it has no number,
no length and no entries one after the other, and `np.exp`, `x.sum()` or `x[0:3]` have nothing to work on. What someone
meant by them can be written nearly always; one table, by the name that was asked for, says how.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy

from derive.errors import MisuseError, NoMemberError

LETTERS = "ijklmnpq"  # names of indices for an example
SHAPE = "indices say which axis is which, as in {entry}, and new ones repeat or split what is there"
NUMBERS = "a statement has no numbers in it; arrays go to the kernel that is generated from it"
PRODUCT = "Sum(x[i, k]*y[k, j], k), or matrix(x) @ matrix(y) in matrix notation"
INVERSE = (
    "B, a tensor of its own, with what it is as a hypothesis: given=[Eq(Sum({name}[i, k]*B[k, j], k), delta(i, j))]"
)
LARGER = "Max({entry}, y), the larger of two values; over an index, argmax(f, over=i, among=j) says where it is"
SMALLER = "Min({entry}, y), the smaller of two values; over an index, argmin(f, over=i, among=j) says where it is"

ROWS: tuple[
    tuple[str, str], ...
] = (  # what is asked for, by the names in NumPy, math and PyTorch, and how it is written
    ("exp log sqrt tanh sin cos sinh cosh erf erfc sign atan", "{asked}({entry})"),
    ("sigmoid softplus relu gelu silu", "{asked}({entry})"),
    ("softmax log_softmax logsumexp mean", "{asked}({entry}, over={last})"),
    ("sum nansum fsum add.reduce", "Sum({entry}, {every})"),
    ("prod multiply.reduce", "Product({entry}, {every})"),
    ("arctan", "atan({entry})"),
    ("abs absolute fabs", "Abs({entry})"),
    ("var", "variance({entry}, over={last})"),
    ("std", "sqrt(variance({entry}, over={last}))"),
    ("norm", "sqrt(Sum({entry}**2, {every}))"),
    ("square", "{entry}**2"),
    ("pow float_power", "{entry}**n"),
    ("reciprocal", "1/{entry}"),
    ("rsqrt", "1/sqrt({entry})"),
    ("log1p", "log(1 + {entry}), which the kernel computes without cancellation"),
    ("expm1", "exp({entry}) - 1, which the kernel computes without cancellation"),
    ("log2", "log({entry})/log(2)"),
    ("log10", "log({entry})/log(10)"),
    ("exp2", "2**{entry}"),
    ("maximum fmax max amax maximum.reduce", LARGER),
    ("minimum fmin min amin minimum.reduce", SMALLER),
    ("clip clamp", "Max(low, Min({entry}, high))"),
    ("heaviside", "iverson({entry} > 0)"),
    ("where", "where(condition, yes, no), gradproof's own"),
    ("argmax argmin", "{asked}({entry}, over={last}, among=j), which is 1 there and 0 elsewhere"),
    ("cumsum", "Sum(where(k <= {last}, f, 0), k), with f at k"),
    ("dot matmul mm bmm inner vdot tensordot einsum outer", PRODUCT),
    ("T mT H transpose permute swapaxes", "{name}[j, i], or matrix({name}).T in matrix notation"),
    ("trace", "Sum({name}[i, i], i), or matrix({name}).trace()"),
    ("I inv inverse pinv solve", INVERSE),
    ("reshape view flatten ravel squeeze unsqueeze expand broadcast_to repeat tile", SHAPE),
    ("stack concatenate cat concat expand_dims", SHAPE),
    ("backward grad requires_grad requires_grad_", "program.gradient(output), where it is d{name}"),
    ("item numpy tolist astype dtype device to cpu cuda float double half detach copy", NUMBERS),
    ("size ndim dim", "{name}.shape, a tuple of sizes"),
)
WRITTEN: Mapping[str, str] = {name: text for names, text in ROWS for name in names.split()}
SENTENCES = (SHAPE, NUMBERS)  # what is no formula that could be written

# NumPy's numbers may stand on the left of a symbol: 2.0*x[i] is asked of NumPy first.
OPERATORS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "power": operator.pow,
    "float_power": operator.pow,
    "negative": operator.neg,
    "positive": operator.pos,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


def how_to_write(asked: str, of: Any) -> str | None:
    """How a statement says what `asked` computes, for the symbol `of`; None for a name that is not known."""
    pattern = WRITTEN.get(asked)
    if pattern is None:
        return None
    text = pattern.format(asked=asked, **_example_of(of))
    return text if pattern in SENTENCES else f"write {text}"


def _example_of(of: Any) -> dict[str, str]:
    """The parts of an example about a symbol: its name, an entry of it, and the last index of that."""
    name = str(getattr(of, "text", getattr(getattr(of, "base", of), "name", of)))  # of a matrix, as it was written
    letters = list(LETTERS[: len(getattr(of, "shape", ()))])
    if isinstance(of, sympy.Indexed):
        letters = [str(part) for part in of.indices]
    entry = f"{name}[{', '.join(letters)}]" if letters else name
    letters = letters or ["i"]
    return {"name": name, "entry": entry, "last": letters[-1], "every": ", ".join(letters)}


def how_to_read(tensor: Any, axis: int, part: Any) -> str:
    """What stands at an axis in place of `part`, which is no position: a slice, a name, a number, a computed place."""
    name, size = tensor.name, tensor.shape[axis]
    taken = {str(symbol) for symbol in getattr(part, "free_symbols", ())}
    letters = [letter for letter in LETTERS if letter not in taken][: len(tensor.shape)]
    entry = f"{name}[{', '.join(letters)}]"
    free = letters[axis]
    if isinstance(part, slice):
        if part == slice(None):
            return f"a whole axis is an index, {entry}"
        within = f"And({part.start or 0} <= {free}, {free} < {size if part.stop is None else part.stop})"
        return f"a part of an axis is what a condition leaves of it, as where({within}, {entry}, 0)"
    if part is None or part is Ellipsis:
        return f"each axis has an index, and no other: {entry}"
    if isinstance(part, str):
        return f"an index is no text; make one, {part if part.isidentifier() else 'i'} = index({part!r}, {size})"
    if isinstance(part, sympy.Indexed):
        return (
            f"a look-up is by a tensor of indices, {part.base.name} = tensor({str(part.base.name)!r}, ..., into={size})"
        )
    symbols = part.free_symbols if isinstance(part, sympy.Expr) else ()
    if symbols and all(isinstance(symbol, Symbolic) and symbol.is_integer for symbol in symbols):
        return (
            f"a place that may lie outside is said by a condition: Sum(where(Eq({free}, {part}), {entry}, 0), {free})"
        )
    return "make an index with index(...), or an index tensor with tensor(..., into=...)"


def entries_of(tensor: Any) -> str:
    """What is said where Python wants the entries of a tensor one after the other: sum(x), list(x), for v in x."""
    pattern = (
        "for ... in {name}, sum({name}), list({name}): expected entries one after the other, found {name}, whose size "
        'stays a letter; write Sum({entry}, {every}), or program.define("y", [{every}], ...) for all of them'
    )
    return pattern.format(**_example_of(tensor))


def _refuse(what: str, of: Any, advice: str | None) -> MisuseError:
    """The error about something that was asked of a symbol, for the caller to raise."""
    return MisuseError(f"{what}: expected a number or an array, found {of}, which stands for any; {advice or NUMBERS}")


def no_member(of: Any, name: str, what: str) -> AttributeError:
    """The error about an attribute that is not there, for the caller to raise: with advice where a name is known."""
    advice = None if name.startswith("_") else how_to_write(name, of)
    if advice is None:
        return AttributeError(f"{type(of).__name__!r} object has no attribute {name!r}")
    return NoMemberError(f"{getattr(of, 'text', of)}.{name}: {what} has no such attribute; {advice}")


class Symbolic:
    """A symbol that answers, where it is taken for an array or a number, how a statement says what was meant."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise no_member(self, name, "a symbol")

    def __float__(self) -> float:
        ours = "write gradproof's functions in place of those of math, as in exp({entry}), sqrt({entry})"
        raise _refuse(f"float({self})", self, ours.format(**_example_of(self)))

    def __complex__(self) -> complex:
        raise _refuse(f"complex({self})", self, None)

    def __int__(self) -> int:
        raise _refuse(f"int({self})", self, None)

    def __index__(self) -> int:
        raise MisuseError(
            f"{self}: expected a whole number, as range(3) has it, found {self}, which stays a letter; what goes over "
            f"a whole range is written Sum(f, i) or Product(f, i), with i = index('i', {getattr(self, 'extent', self)})"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_options: Any) -> Any:
        """What NumPy does entry by entry: arithmetic with its numbers is that of statements, all else is refused."""
        plain = OPERATORS.get(ufunc.__name__) if method == "__call__" else None
        if plain is None:
            asked = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise _refuse(f"np.{asked}({self})", self, how_to_write(asked, self))
        return _entry_by_entry(plain, inputs)

    def __array_function__(self, func: Any, _types: Any, _args: Any, _options: Any) -> Any:
        """What else NumPy does with arrays is refused."""
        raise _refuse(f"np.{func.__name__}({self})", self, how_to_write(func.__name__, self))

    @classmethod
    def __torch_function__(cls, func: Any, _types: Any, args: Any = (), options: Any = None) -> Any:
        """What PyTorch does with tensors is refused."""
        found = next(part for part in (*args, *(options or {}).values()) if isinstance(part, Symbolic))
        name = func.__name__.strip("_")
        raise _refuse(f"torch.{name}({found})", found, how_to_write(name, found))


class SymbolicArray(Symbolic):
    """A symbol with axes, which is no list of its entries either."""

    __slots__ = ()
    name: Any

    def __matmul__(self, other: object) -> Any:
        raise MisuseError(
            f"{self.name} @ {other}: a product of tensors is a sum over an index, Sum({self.name}[i, k] * ..., k), "
            f"or in matrix notation matrix({self.name}) @ matrix(...)"
        )

    def __iter__(self) -> Any:  # without it, Python would read x[0], x[1], ... and never end
        raise MisuseError(entries_of(self))

    def __len__(self) -> int:
        raise MisuseError(
            f"len({self.name}): expected a number of entries, found a size, which stays a letter: {self.name}.shape[0]"
        )

    def __bool__(self) -> bool:
        return True  # and not whether there are entries, as Python has it for what has a length

    def __setitem__(self, where: Any, value: Any) -> None:
        raise MisuseError(
            f"{self.name}[{where}] = {value!r}: a tensor has its entries once and for all; define another, "
            f'program.define("y", [i], where(condition, value, {self.name}[i]))'
        )


def _entry_by_entry(plain: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """The operator applied to symbols and NumPy's numbers, or to a symbol and each entry of an array of numbers."""
    for place, part in enumerate(inputs):
        if getattr(part, "ndim", 0) and not isinstance(part, sympy.Basic):
            result = part.astype(object)
            for at in range(part.size):
                result.flat[at] = _entry_by_entry(plain, (*inputs[:place], part.flat[at], *inputs[place + 1 :]))
            return result
    return plain(
        *(part if isinstance(part, sympy.Basic) or not hasattr(part, "item") else part.item() for part in inputs)
    )
