"""The residual connection y = x + f, and what it does to gradients: each summand receives dy whole. He et al. 2016.

The same kernel adds the cotangents of a value that is used twice, which is the other half of the sentence: a value
copied to two places receives the sum of what comes back from both.
"""

from derive.language import Sum, dims, leading_index, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x, f = tensor("x", N), tensor("f", N)

addition = Program("addition", "the sum of two arrays", [x, f])
y = addition.define("y", [n], x[n] + f[n])
addition.kernel(y, wrt=[x, f])

backward = addition.gradient(y)
backward.claim("addition-dx", backward["dx"][n], backward["dy"][n], name="the first summand receives dy")
backward.claim("addition-df", backward["df"][n], backward["dy"][n], name="so does the second")

# A value u that is used twice, by two functions of which only the slopes a and b matter here.
u, a, b = tensor("u", N), tensor("a", N), tensor("b", N)
used_twice = Program("used_twice", "a value used in two places", [u, a, b])
first = used_twice.define("first", [n], a[n] * u[n])
second = used_twice.define("second", [n], b[n] * u[n])
loss = used_twice.define("loss", [], Sum(first[n] + second[n], n))
fork = used_twice.gradient(loss)
fork.claim(
    "used-twice", fork["du"][n], a[n] * fork["dfirst"][n] + b[n] * fork["dsecond"][n],
    name="a value used twice receives the sum of two gradients",
)  # fmt: skip
