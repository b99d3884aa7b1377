"""Long lines of generated code, broken the way a formatter would: after an opening bracket, before its closing one.

Last touch of the printer, which breaks sums and products at their operators first. What is left too long is a call, a
subscript or a parenthesis; its contents go to lines of their own, one argument a line where they do not fit on one.
"""

from __future__ import annotations

OPENING, CLOSING = "([{", ")]}"
STEP = "    "


def wrapped(line: str, width: int) -> list[str]:
    """The line, or several lines of the same meaning, none longer than the width where brackets allow it."""
    if len(line) <= width or line.lstrip().startswith("#"):
        return [line]
    group = _widest_group(line)
    if group is None:
        return [line]
    start, end = group
    indent = line[: len(line) - len(line.lstrip())]
    content = line[start + 1 : end].strip()
    head, tail = line[: start + 1], f"{indent}{line[end:]}"
    if len(indent) + len(STEP) + len(content) <= width:
        return [head, f"{indent}{STEP}{content}", *wrapped(tail, width)]
    parts = _arguments(content)
    if len(parts) == 1:
        return [head, *wrapped(f"{indent}{STEP}{content}", width), *wrapped(tail, width)]
    inner = [piece for part in parts for piece in wrapped(f"{indent}{STEP}{part},", width)]
    return [head, *inner, *wrapped(tail, width)]


def _widest_group(line: str) -> tuple[int, int] | None:
    """Where the outermost pair of brackets with the most between them opens and closes."""
    depth, start, found = 0, 0, []
    for place, character in enumerate(line):
        if character in OPENING:
            start = place if depth == 0 else start
            depth += 1
        elif character in CLOSING:
            depth -= 1
            if depth == 0 and place > start + 1:
                found.append((start, place))
    return max(found, key=lambda group: group[1] - group[0], default=None)


def _arguments(content: str) -> list[str]:
    """The text split at commas outside brackets and strings; strings of generated code have no brackets in them."""
    parts, depth, start, quoted = [], 0, 0, False
    for place, character in enumerate(content):
        quoted ^= character == '"'
        depth += (character in OPENING) - (character in CLOSING)
        if character == "," and depth == 0 and not quoted:
            parts.append(content[start:place].strip())
            start = place + 1
    return [*parts, content[start:].strip()] if content[start:].strip() else parts
