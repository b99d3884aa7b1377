"""Mean squared error over all leading dimensions: its gradient, and what it is around a constant.

    loss = mean_n (y_n - t_n)^2,   dy_n = 2 (y_n - t_n) / N

Around a constant c it is the variance of t plus the squared distance of c from the mean, so that the mean is the best
constant, and the least error is the variance.
"""

from derive.functions import mean, variance
from derive.language import dims, index, leading_index, scalar, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
k = index("k", N)
y, t = tensor("y", N), tensor("t", N)
c = scalar("c")

mean_squared_error = Program("mean_squared_error", "mean squared error", [y, t])
loss = mean_squared_error.define("loss", [], mean((y[n] - t[n]) ** 2, over=n))
mean_squared_error.kernel(loss, wrt=[y, t])

backward = mean_squared_error.gradient(loss)
dloss = backward["dloss"]
backward.claim("mse-backward", backward["dy"][n], dloss * 2 * (y[n] - t[n]) / N, name="dy = 2 (y - t) / N")
backward.claim("mse-backward-target", backward["dt"][n], -backward["dy"][n], name="the target receives the opposite")

constant = Program("mean_squared_error_constant", "mean squared error of a constant", [t, c])
error = constant.define("error", [], mean((c - t[n]) ** 2, over=n))
average = mean(t[k], over=k)
constant.steps(
    "mse-constant",
    error,
    mean(((c - average) - (t[n] - average)) ** 2, over=n),
    (c - average) ** 2 - 2 * (c - average) * mean(t[n] - average, over=n) + mean((t[n] - average) ** 2, over=n),
    (c - average) ** 2 + mean((t[n] - average) ** 2, over=n),
    (c - average) ** 2 + variance(t[n], over=n),
    because=["the mean taken away and added", "square of a difference", "deviations from the mean sum to 0",
             "the variance"],
)  # fmt: skip
slope = constant.derivative(error, c)
constant.claim("mse-best-constant", slope, 2 * (c - average), name="the slope is 0 at the mean alone")
