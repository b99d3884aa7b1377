"""The numeric side: evaluation at small sizes, counterexamples, and the second engine.

Shares no code with `derive.normal`, the symbolic decision procedure, so that each can check the other. Its faces are
`derive.evaluation` and `derive.refutation`.
"""
