"""Direct preference optimisation: a logistic loss on the difference of implicit rewards. Rafailov et al. 2023.

    h = beta (log pi_w - log ref_w) - beta (log pi_l - log ref_l),   loss = mean -log sigma(h)
    d / d log pi_w = -beta sigma(-h) / N,   d / d log pi_l = beta sigma(-h) / N

The weight sigma(-h) = sigma(r_l - r_w) is large where the rewards order the pair wrongly.
"""

from sympy import exp, log

from derive.functions import sigmoid, softplus
from derive.language import Sum, dims, leading_index, scalar, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
chosen, rejected = tensor("chosen", N), tensor("rejected", N)
ref_chosen, ref_rejected = tensor("ref_chosen", N), tensor("ref_rejected", N)
beta = scalar("beta", positive=True)

dpo = Program("dpo", "direct preference optimisation", [chosen, rejected, ref_chosen, ref_rejected, beta])
r_w = dpo.define("r_w", [n], beta * (chosen[n] - ref_chosen[n]))
r_l = dpo.define("r_l", [n], beta * (rejected[n] - ref_rejected[n]))
h = dpo.define("h", [n], r_w[n] - r_l[n])
loss = dpo.define("loss", [], Sum(softplus(-h[n]), n) / N)
dpo.kernel(loss, wrt=[chosen, rejected], defaults={beta: 0.1})

dpo.steps(
    "dpo-pair",
    softplus(-h[n]),
    log(1 + exp(r_l[n] - r_w[n])),
    log(exp(r_w[n]) + exp(r_l[n])) - r_w[n],
    -log(exp(r_w[n]) / (exp(r_w[n]) + exp(r_l[n]))),
    -log(sigmoid(h[n])),
    because=["softplus spelled out", "e^r_w taken out", "the log softmax over the pair", "the logistic function"],
)

backward = dpo.gradient(loss)
dloss = backward["dloss"]
backward.claim(
    "dpo-chosen", backward["dchosen"][n], -dloss * beta * sigmoid(r_l[n] - r_w[n]) / N,
    name="chosen: -beta sigma(r_l - r_w) / N",
)  # fmt: skip
backward.claim("dpo-rejected", backward["drejected"][n], -backward["dchosen"][n], name="rejected: the opposite")
