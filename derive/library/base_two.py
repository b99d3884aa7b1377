"""Exponentials and logarithms to base 2: with y = x / log(2), e^x is 2^y, and log x is log(2) times log2 x.

So a softmax, with any number taken away in its exponents, may be computed with powers of 2, and a log-sum-exp with
logarithms to base 2. The compiler rests on this where the quotient by log(2) costs nothing (`codegen.blocking.bases`).
"""

from sympy import exp, log

from derive.language import Sum, dims, indices, scalar, tensor
from derive.program import Program

(T,) = dims("T")
i, j = indices("i j", T)
x, m = tensor("x", T), scalar("m")

base_two = Program("base_two", "exponentials and logarithms to base 2", [x, m])
y = base_two.define("y", [i], x[i] / log(2))
shifted = Sum(2 ** (y[j] - m), j)

base_two.claim("base-two-exponential", exp(x[i]), 2 ** y[i], name="an exponential is a power of 2")
base_two.claim(
    "base-two-softmax", exp(x[i]) / Sum(exp(x[j]), j), 2 ** (y[i] - m) / shifted, name="softmax with powers of 2"
)
base_two.claim(
    "base-two-logsumexp",
    log(Sum(exp(x[j]), j)),
    log(2) * (m + log(shifted) / log(2)),
    name="log-sum-exp with logarithms to base 2",
)
