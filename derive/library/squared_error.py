"""The squared error of each entry, and its sum: what a mean squared error is the mean of.

    e_n = (y_n - t_n)^2,   total = Sum_n e_n,   dy_n = 2 (y_n - t_n) de_n

Either operand has its gradient, the target the opposite of the other's.
"""

from derive.language import Sum, dims, leading_index, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
y, t = tensor("y", N), tensor("t", N)

squared_error = Program("squared_error", "squared error of each entry", [y, t])
e = squared_error.define("e", [n], (y[n] - t[n]) ** 2)
squared_error.kernel(e, wrt=[y, t])
backward = squared_error.gradient(e)
backward.claim(
    "squared-error-backward", backward["dy"][n], 2 * (y[n] - t[n]) * backward["de"][n], name="dy = 2 (y - t) de"
)
backward.claim("squared-error-target", backward["dt"][n], -backward["dy"][n], name="the target receives the opposite")

summed = Program("squared_error_sum", "squared error, summed", [y, t])
total = summed.define("total", [], Sum((y[n] - t[n]) ** 2, n))
summed.kernel(total, wrt=[y, t])
sum_backward = summed.gradient(total)
sum_backward.claim(
    "squared-sum-backward",
    sum_backward["dy"][n],
    2 * (y[n] - t[n]) * sum_backward["dtotal"],
    name="dy = 2 (y - t) dtotal",
)
