"""What a program is made of: definitions, claims about them, and the request for a kernel.

Beside `derive.program`, which checks and collects them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sympy import Expr, Indexed

from derive.binders import substitute
from derive.language import Index, Scalar, Tensor, axis_sizes, entry

if TYPE_CHECKING:
    from derive.program import Program
    from derive.rules import Rule

Name = Tensor | Scalar


@dataclass(frozen=True)
class Definition:
    """One named definition: symbol[indices] = body."""

    symbol: Name
    indices: tuple[Index, ...]
    body: Expr

    @classmethod
    def named(cls, name: str, over: Sequence[Index], body: Expr) -> Definition:
        """The definition of a tensor over these indices, or of a scalar where there are none."""
        return cls(Tensor(name, axis_sizes(over)) if over else Scalar(name), tuple(over), body)

    @cached_property
    def _hash(self) -> int:
        return hash((self.symbol, self.indices, self.body))

    def __hash__(self) -> int:
        return self._hash  # definitions are keys of what is remembered about them, looked up over and over

    @property
    def name(self) -> str:
        """The name that is defined."""
        return str(self.symbol.name)

    @property
    def left(self) -> Expr:
        """The left side, symbol[indices]."""
        return entry(self.symbol, self.indices)

    def at(self, read: Any) -> Any:
        """What the name stands for where it is read, `read` an entry of the tensor or the scalar itself."""
        places = read.indices if isinstance(read, Indexed) else ()
        return substitute(self.body, dict(zip(self.indices, places, strict=True)))

    def __str__(self) -> str:
        return f"{self.left} = {self.body}"


@dataclass(frozen=True)
class Claim:
    """An equality that is claimed to hold for all sizes.

    `given` are conditions under which it is claimed (i != j). `program` supplies the definitions of the names.
    """

    id: str
    name: str
    left: Expr
    right: Expr
    program: Program = field(repr=False)
    given: tuple[Any, ...] = ()
    source: str = ""
    note: str = ""
    assuming: tuple[str, ...] = ()
    by: Rule | None = None

    def __str__(self) -> str:
        under = f"   given {', '.join(map(str, self.given))}" if self.given else ""
        return f"{self.left} = {self.right}{under}"


@dataclass(frozen=True)
class KernelRequest:
    """That a kernel is wanted: what it returns, the variables it is differentiated for, defaults of its options.

    `typical` are sizes that the compiler may expect where it has a choice.
    """

    outputs: tuple[Name, ...]
    wrt: tuple[Name, ...]
    defaults: Mapping[str, float | bool]
    typical: Mapping[str, int] = field(default_factory=dict)
