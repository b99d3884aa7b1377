"""Softplus and the logistic function: log(1 + e^x), its slope sigma(x), and the identities of log sigma.

    sigma(x) = 1 / (1 + e^-x),   log sigma(x) = -softplus(-x),   sigma' = sigma (1 - sigma)

log sigma is computed through softplus: the logarithm of a sigma that has underflowed is -inf, softplus is exact.
"""

from sympy import exp, log, tanh

from derive.functions import sigmoid
from derive.functions import softplus as softplus_of
from derive.language import dims, leading_index, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x = tensor("x", N)

softplus = Program("softplus", "softplus", [x])
y = softplus.define("y", [n], softplus_of(x[n]))
softplus.kernel(y, wrt=[x])
softplus.claim("softplus-reflection", y[n] - softplus_of(-x[n]), x[n], name="softplus(x) - softplus(-x) = x")
softplus.claim("softplus-log-sigmoid", log(sigmoid(x[n])), -softplus_of(-x[n]), name="log sigma(x) = -softplus(-x)")
softplus.claim("softplus-log-complement", log(1 - sigmoid(x[n])), -y[n], name="log(1 - sigma(x)) = -softplus(x)")
softplus.claim("sigmoid-reflection", sigmoid(-x[n]), 1 - sigmoid(x[n]), name="sigma(-x) = 1 - sigma(x)")
softplus.claim("sigmoid-tanh", sigmoid(x[n]), (1 + tanh(x[n] / 2)) / 2, name="sigma is a shifted and scaled tanh")

backward = softplus.gradient(y)
backward.claim("softplus-backward", backward["dx"][n], backward["dy"][n] * sigmoid(x[n]), name="the slope is sigma")

slope = softplus.derivative(sigmoid(x[n]), x[n])
softplus.steps(
    "sigmoid-slope",
    slope,
    exp(-x[n]) / (1 + exp(-x[n])) ** 2,
    1 / (1 + exp(-x[n])) * (exp(-x[n]) / (1 + exp(-x[n]))),
    sigmoid(x[n]) * (1 - sigmoid(x[n])),
    sigmoid(x[n]) * sigmoid(-x[n]),
    because=["quotient rule", "two factors", "the second is 1 - sigma", "which is sigma(-x)"],
)

# log sigma: the loss of a logistic model for one label, and what a gate in log space needs.
log_sigmoid = Program("log_sigmoid", "logarithm of the logistic function", [x])
log_y = log_sigmoid.define("y", [n], log(sigmoid(x[n])))
log_sigmoid.kernel(log_y, wrt=[x])
log_backward = log_sigmoid.gradient(log_y)
log_backward.claim(
    "log-sigmoid-backward", log_backward["dx"][n], log_backward["dy"][n] * sigmoid(-x[n]), name="the slope is sigma(-x)"
)
