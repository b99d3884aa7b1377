"""The pass that writes definitions in where they are read: those that cost less without a name of their own.

One of the algebraic passes (`codegen.algebra.passes`). A definition with a name is stored and read; written in, it
meets the factors and sums of its readers, and what becomes of them there is again a matter of `codegen.algebra.search`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sympy

from codegen.algebra.estimates import definition_cost, routine_weight
from codegen.algebra.networks import components, names_in, term_of
from codegen.algebra.rewriting import Changes, Definitions, Rewrite, Setting, ordered, written_in
from codegen.algebra.search import search_for
from derive.functions import Defined
from derive.statements import Definition

GAIN = 0.999  # what a routine may cost with a name less, as a share of what it did


def eliminated(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions less those that cost less when they are written in wherever they are read."""
    current = {definition.name: definition for definition in definitions}
    rewrites: list[Rewrite] = []
    for name in [definition.name for definition in definitions if definition.name not in setting.wanted]:
        if _is_stored(current[name], setting):
            continue
        made = _without_definition(current[name], current, setting)
        if made is None:
            continue
        found, changes = made
        # A name is worth a little, and more where exponentials are: what stands beside one is treated with care.
        changed = [current[name].body, *(current[reader].body for reader in changes)]
        share = GAIN if any(body.has(sympy.Function, Defined) for body in changed) else 1
        if _total(found, setting) < share * _total(current, setting):
            for reader, more in changes.items():
                told = ((current[name].left, current[name].body), *more)
                rewrites.append(Rewrite(current[reader], found[reader].body, told))
            current = found
    return ordered(tuple(current.values())), tuple(rewrites)


def _is_stored(definition: Definition, setting: Setting) -> bool:
    """Whether the definition is one matrix product, which is stored wherever it stands: nothing is to be gained."""
    is_product = bool(definition_cost(definition, setting.sizes).products.terms)
    return is_product and [bool(scope) for scope, _ in components(term_of(definition.body))] == [True]


def _without_definition(
    gone: Definition, current: Mapping[str, Definition], setting: Setting
) -> tuple[dict[str, Definition], dict[str, Changes]] | None:
    """The definitions with one of them written in wherever it is read, and what that changed besides."""
    found = {name: known for name, known in current.items() if name != gone.name}
    changes: dict[str, Changes] = {}
    for name, reader in list(found.items()):
        if gone.name in names_in(reader.body):
            search = search_for(name, found, setting, gone.name)
            body, changes[name] = search.improved(written_in(reader.body, gone))
            if gone.name in names_in(body):
                return None
            found[name] = replace(reader, body=body)
    return found, changes


def _total(current: Mapping[str, Definition], setting: Setting) -> int:
    return routine_weight(current.values(), setting)
