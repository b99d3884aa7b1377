"""Stage 3: from formulas to nodes, by a table of rules."""
