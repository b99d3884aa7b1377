"""A loop as lines of code: the arrays that it fills, the function for one block, and the call that runs over all.

Stage 5c of the compiler. `codegen.blocking.loops` says what is computed block by block and `codegen.printing.blocks`
prints one block; what is left is the frame: whole arrays for stored and accumulated values, the size of a block, and
the sum of the parts that accumulated values are gathered in. Which thread computes which block is a matter of the
runtime, and no result depends on it.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from codegen.algebra.costs import Sizes, typical_sizes
from codegen.backends import Library
from codegen.blocking.bases import in_base_two
from codegen.blocking.loops import Loop, looped
from codegen.blocking.scales import scaled_names, unshifted
from codegen.blocking.supports import End, Supports, ranges, supports_of
from codegen.ir.insides import is_truth
from codegen.ir.nodes import Axes, Map, Node, Option
from codegen.ir.sharing import Statement, fresh_name, reads
from codegen.ir.trees import indices_of, walk, with_children
from codegen.planning.routines import Kernel
from codegen.printing.blocks import BlockPrinter
from codegen.printing.printer import Printer
from derive.language import Dim, Index


@dataclass(frozen=True)
class Sweep:
    """A loop with what a kernel knows about it: the ranges it may restrict, and the names of its variables.

    `rows` and `parts` name the size of a block and the number of parts of a sum; where the first is `given`, an earlier
    kernel has decided it. `light` is the loop without row maxima, and the bound up to which it may be taken. `partial`
    are the stored arrays of which only the visited part is ever read; the others are zero elsewhere. `tile` is the long
    index that may be cut as well. In `base_two` exponents are quotients by log(2).
    """

    loop: Loop
    restricted: Mapping[Index, tuple[End, ...]]
    rows: str = "rows"
    parts: str = "parts"
    given: bool = False
    light: tuple[Loop, Node] | None = None
    partial: frozenset[str] = frozenset()
    tile: Index | None = None
    base_two: bool = False

    @property
    def width(self) -> str:
        """How many entries a row of the widest value has."""
        return " * ".join(str(index.extent) for index in _columns(self.loop)) or "1"


def _columns(loop: Loop) -> Axes:
    """The indices of the widest value that each row of a block has whole."""
    return tuple(index for index in loop.widest if index not in (*loop.outer, loop.row))


def _long(loop: Loop, sizes: Sizes) -> Index | None:
    """The index of a loop with products of matrices whose rows are typically longer than a tile; None if there is none.

    Without products a block is as low as it takes to fit in the cache.
    """
    columns = [index for index in _columns(loop) if isinstance(index.extent, Dim)]
    is_long = loop.has_products and len(columns) == 1 and sizes.get(str(columns[0].extent), 0) > COLUMNS
    return columns[0] if is_long else None


Step = Statement | Sweep
WIDTH = 104  # of a line of a docstring
COLUMNS = 512  # of a tile, at least: what typically has no more is not cut


def steps(kernel: Kernel, library: Library) -> tuple[list[Step], list[Step]]:
    """The statements of both routines with what is best computed block by block in loops."""
    forward, backward = kernel.forward, kernel.backward
    returned = [parameter.name for parameter in forward.returns]
    if not library.blocks:
        return list(forward.statements), list(backward.statements) if backward is not None else []
    sizes = typical_sizes(kernel.program)
    names = _words(kernel)
    planned = functools.partial(looped, sizes=sizes)
    scaled = scaled_names([*forward.statements, *(backward.statements if backward is not None else ())])
    first = _sweeps(planned(forward.statements, [*returned, *kernel.saved]), {}, names, sizes, scaled)
    first, loose = _with_any_sums(first, set())
    if backward is None:
        return _in_base_two(first, [], returned, library)
    of_saved = supports_of([s for step in first for s in (step.loop.body if isinstance(step, Sweep) else [step])], {})
    known = {name: of_saved[name] for name in kernel.saved if name in of_saved}
    wanted = [parameter.name for parameter in backward.returns]
    second, _ = _with_any_sums(_sweeps(planned(backward.statements, wanted), known, names, sizes, scaled), loose)
    return _in_base_two(*matched(first, second, returned, names), [*returned, *wanted], library)


def _in_base_two(
    forward: list[Step], backward: list[Step], returned: Sequence[str], library: Library
) -> tuple[list[Step], list[Step]]:
    """The steps of both routines with exponentials to base 2, where these are faster and free."""
    planned = [*forward, *backward]
    sweeps = [step for step in planned if isinstance(step, Sweep)]
    loops = [loop for s in sweeps for loop in (s.loop, *([s.light[0]] if s.light is not None else []))]
    outside = [step for step in planned if isinstance(step, Statement)]
    bodies = in_base_two([loop.body for loop in loops], outside, returned) if library.base_two else None
    if bodies is None:
        return forward, backward
    made = iter([replace(loop, body=tuple(body)) for loop, body in zip(loops, bodies, strict=True)])

    def each(step: Step) -> Step:
        if isinstance(step, Statement):
            return step
        step = replace(step, loop=next(made), base_two=True)
        return step if step.light is None else replace(step, light=(next(made), step.light[1]))

    return [each(step) for step in forward], [each(step) for step in backward]


def _words(kernel: Kernel) -> set[str]:
    """The names that a kernel uses already."""
    routines = [routine for routine in (kernel.forward, kernel.backward) if routine is not None]
    named = {name for r in routines for name in (*r.sizes, *r.options, *(p.name for p in r.parameters))}
    named |= {index.name for r in routines for s in r.statements for index in (*s.axes, *indices_of(s.node))}
    return named | {name for r in routines for s in r.statements for name in (s.name, *reads(s.node))}


def _sweeps(
    made: Sequence[Statement | Loop], known: Supports, names: set[str], sizes: Sizes, scaled: Set[str]
) -> list[Step]:
    """The steps with the ranges of every loop restricted as far as the supports of its values allow."""
    rows, parts = (fresh_name(stem, set(names)) for stem in ("rows", "parts"))
    found: list[Step] = []
    for step in made:
        if isinstance(step, Statement):
            found.append(step)
            continue
        restricted = ranges(step.body, step.row, step.stored, known, step.outer)
        light = unshifted(step, scaled)
        same = light is not None and ranges(light[0].body, step.row, step.stored, known, step.outer) == restricted
        tile = _long(step, sizes)
        found.append(Sweep(step, restricted, rows, parts, light=light if same else None, tile=tile))
    return found


def _with_any_sums(planned: Sequence[Step], loose: Set[str]) -> tuple[list[Step], set[str]]:
    """The steps with sums of exponentials taken as they are, but for 0, where they may be below 1; and what is loose.

    That is what a loop leaves that may be computed without row maxima, and all that is computed from it. With the
    maximum taken out a sum is 0 over nothing and at least 1 over anything else, so that both mean the same.
    """
    made, found = list[Step](), set(loose)

    def taken(node: Node) -> Node:
        node = with_children(node, [taken(child) for child in node.children])
        is_sum = isinstance(node, Map) and node.operation == "at_least_one" and reads(node) & found
        return Map("positive", node.children) if is_sum else node

    def each(body: Sequence[Statement]) -> tuple[Statement, ...]:
        for statement in body:
            if reads(statement.node) & found:
                found.add(statement.name)
        return tuple(replace(statement, node=taken(statement.node)) for statement in body)

    for step in planned:
        if isinstance(step, Statement):
            made += each([step])
            continue
        loop = replace(step.loop, body=each(step.loop.body))
        if step.light is None:
            made.append(replace(step, loop=loop))
            continue
        light, bound = step.light
        made.append(replace(step, loop=loop, light=(replace(light, body=each(light.body)), bound)))
        found |= {*loop.stored, *loop.accumulated}  # its own sums it knows about
    return made, found


def matched(
    forward: Sequence[Step], backward: Sequence[Step], returned: Sequence[str], names: set[str]
) -> tuple[list[Step], list[Step]]:
    """Both routines, with arrays left unwritten outside of the ranges that the backward one visits, block by block.

    What is unwritten goes by the size of a block, which the backward routine is handed. Until it is read, no other loop
    has its name.
    """
    loops = [step for step in forward if isinstance(step, Sweep) and step.restricted]
    if len(loops) != 1:
        return list(forward), list(backward)
    (first,) = loops
    partial = {
        name for name, axes in first.loop.stored.items()
        if name not in returned and set(axes) & set(first.restricted)
        and all(_visits(step, name, first) for step in backward)
        and not any(_reads(step, {name}) for step in forward if step is not first)
    }  # fmt: skip
    if not partial:
        return list(forward), list(backward)
    filled = replace(first, partial=frozenset(partial))
    readers = [
        replace(step, given=True) if isinstance(step, Sweep) and _reads(step, partial) else step for step in backward
    ]
    other = fresh_name(first.rows, {*names, first.rows})

    def apart(steps: Sequence[Step]) -> list[Step]:
        return [replace(s, rows=other) if isinstance(s, Sweep) and not s.given else s for s in steps]

    place = next(n for n, step in enumerate(forward) if step is first)
    last = max((n for n, step in enumerate(readers) if isinstance(step, Sweep) and step.given), default=0)
    return [*forward[:place], filled, *apart(forward[place + 1 :])], [*apart(readers[:last]), *readers[last:]]


def _reads(step: Step, names: set[str]) -> bool:
    body = [step] if isinstance(step, Statement) else step.loop.body
    return any(names & reads(statement.node) for statement in body)


def _visits(step: Statement | Sweep, name: str, first: Sweep) -> bool:
    """Whether a step reads the array only where the first loop has written it."""
    if not _reads(step, {name}):
        return True
    return (
        isinstance(step, Sweep) and step.loop.row == first.loop.row and dict(step.restricted) == dict(first.restricted)
    )


def options_of(planned: Sequence[Step]) -> list[str]:
    """The options that decide how far ranges go."""
    found: list[str] = []
    for step in planned:
        for end in (end for known in step.restricted.values() for end in known) if isinstance(step, Sweep) else ():
            found += [end.flag.name] if end.flag is not None else []
            found += [node.name for _, part in end.rest for node in walk(part) if isinstance(node, Option)]
    return found


def sweep_lines(sweep: Sweep, outside: Printer, taken: set[str]) -> list[str]:
    """The lines that compute a loop; `outside` prints what stands around it."""
    loop, library = sweep.loop, outside.library.in_base_two() if sweep.base_two else outside.library
    outside = replace(outside, library=library)
    variables = _variables(sweep, taken)
    function = fresh_name(f"{loop.name}_block", taken)
    lots = loop.lots if library.lots else ()
    own = tuple(index for index in loop.own if index not in lots)
    one, some = (*own, *loop.shared), (*lots, loop.row)
    arguments = ["room: Room", "part: int", *(f"{variables[index]}: int" for index in one)]
    arguments += [f"{variables[index]}: slice" for index in some]
    turned: dict[str, str] = {}
    what = "entries" if loop.is_flat else "rows"
    about = _about(loop, what, [variables[i] for i in one], [variables[i] for i in some])
    printed = functools.partial(
        BlockPrinter, outside=outside, variables=variables, restricted=sweep.restricted,
        lots=lots, tile=sweep.tile, rows=sweep.rows, turned=turned,
    )  # fmt: skip
    block, light = printed(loop, taken=set(taken)), None
    if sweep.light is not None:
        light = printed(sweep.light[0], taken=set(taken), bounded=True)
    is_tiled = any(body is not None and body.tiling is not None for body in (block, light))
    if sweep.tile is not None and sweep.tile not in sweep.restricted and not is_tiled:
        taken.discard(variables[sweep.tile])
    functions = _function(function, arguments, about, block.body())
    chosen, known = function, []
    if sweep.light is not None and light is not None:
        lighter, bound = fresh_name(f"{function}_unshifted", taken), fresh_name(f"{loop.name}_bound", taken)
        functions += _function(lighter, arguments, f"{about} No row maximum is needed.", light.body())
        known = ["# By |x.y| <= |x||y|, no exponent is larger in magnitude.",
                 f"{bound} = {replace(outside, rough=True).laid_out(sweep.light[1], ()).text}"]  # fmt: skip
        chosen = f"{lighter} if bounded({bound}, dtype) else {function}"
    called = [chosen, str(loop.row.extent), sweep.rows, sweep.width, library.runtime["kind_arguments"]]
    called += [*_named_sizes(own=own, shared=loop.shared), *([f"parts={sweep.parts}"] if loop.accumulated else [])]
    called += _named_sizes(lots=lots)
    called += ["matrices=True"] if lots and loop.has_products else []
    return [
        *_whole_arrays(sweep, library, loop.accumulated, is_tiled=is_tiled),
        *(f"{name} = {library.turned.format(array, rows=loop.row.extent)}" for array, name in turned.items()),
        *functions,
        "",
        *known,
        f"workspace.sweep({', '.join(called)})",
        *(f"{name} = {_total(name, sweep.parts, library)}" for name in loop.accumulated),
    ]


def _function(name: str, arguments: Sequence[str], about: str, body: Sequence[str]) -> list[str]:
    """The lines of a function inside a kernel."""
    start = f"def {name}({', '.join(arguments)}) -> None:"
    said = textwrap.wrap(f'"""{about}', WIDTH)
    said[-1:] = [f'{said[-1]}"""'] if len(said) == 1 else [said[-1], '"""']
    return ["", start, *(f"    {line}" for line in (*said, *body))]


def _whole_arrays(sweep: Sweep, library: Library, accumulated: Mapping[str, Axes], *, is_tiled: bool) -> list[str]:
    """The lines that decide on the size of a block and make the arrays that blocks fill or add to."""
    loop, row, lines = sweep.loop, sweep.loop.row.extent, []
    kind = library.runtime["kind_arguments"]
    if not sweep.given:
        matrices = ", matrices=True" if loop.has_products else ""
        matrices += ", tiles=True" if is_tiled else ""
        matrices += ", cut=True" if is_tiled and sweep.restricted else ""
        size = f"stretch({row}, {kind})" if loop.is_flat else f"rows({row}, {sweep.width}{matrices})"
        lines.append(f"{sweep.rows} = workspace.{size}")
    truths = {statement.name for statement in loop.body if is_truth(statement.node)}
    for name, axes in loop.stored.items():
        is_full = name in sweep.partial or not set(axes) & set(sweep.restricted)
        made = library.falsehoods if name in truths else library.empty if is_full else library.zeros
        lines.append(f"{name} = {made.format(shape=_shape(axes))}")
    if accumulated:
        called = [str(row), sweep.rows, *_named_sizes(own=loop.own, shared=loop.shared)]
        lines.append(f"{sweep.parts} = workspace.parts({', '.join(called)})")
    for name, axes in accumulated.items():
        shape = ", ".join([sweep.parts, *(str(index.extent) for index in axes)]) if axes else f"{sweep.parts},"
        lines.append(f"{name} = {library.zeros.format(shape=shape)}")
    return lines


def _total(name: str, parts: str, library: Library) -> str:
    """The sum of the parts of an accumulated array."""
    return f"{name}[0] if {parts} == 1 else {library.reductions['sum'].format(operand=name, axis=0)}"


def _about(loop: Loop, what: str, one: Sequence[str], some: Sequence[str]) -> str:
    """What the function for one block does, as the sentence in its docstring."""
    *lot, row = some
    written = [f"writes {', '.join(loop.stored)}"] * bool(loop.stored)
    added = [f"adds to {', '.join(loop.accumulated)}"] * bool(loop.accumulated)
    chosen = [f"one {', '.join(one)}"] * bool(one) + [f"some {', '.join(lot)}"] * bool(lot)
    done = " and ".join([*written, *added])
    where = f", for {' and '.join(chosen)}" if chosen else ""
    return f"{done[0].upper()}{done[1:]}: the {what} {row} of a block{where}."


def _named_sizes(**groups: Axes) -> list[str]:
    """The sizes of groups of indices as keyword arguments; a group of none is left out."""
    return [f"{name}={_sizes(group)}" for name, group in groups.items() if group]


def _sizes(group: Axes) -> str:
    return f"({', '.join(str(index.extent) for index in group)}{',' * (len(group) == 1)})"


def _shape(axes: Axes) -> str:
    return f"{axes[0].extent}," if len(axes) == 1 else ", ".join(str(index.extent) for index in axes)


def _variables(sweep: Sweep, taken: set[str]) -> dict[Index, str]:
    """The variable of each index that has one value, or part of its range, inside the loop."""
    loop = sweep.loop
    found = {}
    cut = {*sweep.restricted, *([sweep.tile] if sweep.tile is not None else [])}
    for index in (*loop.outer, loop.row, *sorted(cut, key=lambda index: index.name)):
        found[index] = fresh_name(index.name, taken)
    return found
