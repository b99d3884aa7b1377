"""The part of an array that a block works on under a name of its own, where it is read more than once.

After `codegen.printing.blocks`, on the lines of a block. Each `x[n]` makes a new view, which costs as much as a small
operation; with a name it is made once. Only what one block never changes has one: the array, and slices that the block
was given.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from codegen.ir.sharing import fresh_name

PART = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\[(\w+(?:, \w+)*)\]")
ASSIGNED = re.compile(r"\s*[A-Za-z_]\w*\[[\w, ]+\] = ")


def with_views(lines: Sequence[str], given: Collection[str], slices: Collection[str], taken: set[str]) -> list[str]:
    """The lines after those that name the parts read more than once.

    `given` are the variables that a block is called with, `slices` those that stand for several places: a part without
    any may be a number, and no view.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        counts.update(match for match in PART.findall(_code(line)) if _is_fixed(match[1], given, slices))
    names = {
        part: fresh_name("_".join([part[0], *part[1].split(", ")]), taken)
        for part, count in counts.items()
        if count > 1
    }
    bound = [f"{name} = {array}[{where}]" for (array, where), name in names.items()]
    return [*bound, *(_renamed(line, names) for line in lines)]


def _code(line: str) -> str:
    """What a line computes: nothing for a comment, and without the part that it assigns to."""
    if line.lstrip().startswith("#"):
        return ""
    start = ASSIGNED.match(line)
    return line[start.end() :] if start else line


def _is_fixed(where: str, given: Collection[str], slices: Collection[str]) -> bool:
    variables = where.split(", ")
    return all(variable in given for variable in variables) and any(variable in slices for variable in variables)


def _renamed(line: str, names: dict[tuple[str, str], str]) -> str:
    code = _code(line)
    if not code:
        return line
    shown = PART.sub(lambda match: names.get((match[1], match[2]), match[0]), code)
    return line[: len(line) - len(code)] + shown
