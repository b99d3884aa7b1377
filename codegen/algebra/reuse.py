"""The pass that reads what is at hand: each definition in its cheapest form.

One of the algebraic passes (`codegen.algebra.passes`); the forms are those of `codegen.algebra.search`.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.algebra.rewriting import Definitions, Rewrite, Setting, ordered
from codegen.algebra.search import search_for


def reused(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions in their cheapest forms, and what was rewritten."""
    current = {definition.name: definition for definition in definitions}
    rewrites: list[Rewrite] = []
    for definition in definitions:
        body, changes = search_for(definition.name, current, setting).improved(definition.body)
        if body != definition.body:
            rewrites.append(Rewrite(definition, body, changes))
            current[definition.name] = replace(definition, body=body)
    return ordered(tuple(current.values())), tuple(rewrites)
