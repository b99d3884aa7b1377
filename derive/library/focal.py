"""Focal loss: cross entropy with well-classified examples weighted down. Lin et al. 2017, equation 4 and appendix B.

    FL = -(1 - p)^gamma log p,   p = sigma(u),   u = y x,   y = 1 or -1
    dFL/dx = y (1 - p)^gamma (gamma p log p + p - 1)

1 - p = sigma(-u) and -log p = softplus(-u): written so, nothing is lost where p is close to 0 or to 1.
"""

from sympy import log

from derive.functions import sigmoid, softplus
from derive.language import dims, leading_index, scalar, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x, y = tensor("x", N), tensor("y", N)
gamma = scalar("gamma", positive=True)

focal = Program("focal", "focal loss of binary logits, labels 1 and -1", [x, y, gamma])
u = focal.define("u", [n], y[n] * x[n])
FL = focal.define("FL", [n], sigmoid(-u[n]) ** gamma * softplus(-u[n]))
focal.kernel(FL, wrt=[x], defaults={gamma: 2.0})

p = sigmoid(u[n])
focal.steps(
    "focal",
    FL[n],
    (1 - p) ** gamma * softplus(-u[n]),
    -((1 - p) ** gamma) * log(p),
    because=["sigma(-u) = 1 - sigma(u)", "softplus(-u) = -log sigma(u)"],
)
focal.claim(
    "focal-slope", focal.derivative(FL[n], u[n]), (1 - p) ** gamma * (gamma * p * log(p) + p - 1), name="dFL/du"
)

backward = focal.gradient(FL)
backward.claim(
    "focal-backward", backward["dx"][n],
    backward["dFL"][n] * y[n] * (1 - p) ** gamma * (gamma * p * log(p) + p - 1),
    name="dx = y (1 - p)^gamma (gamma p log p + p - 1)",
)  # fmt: skip
