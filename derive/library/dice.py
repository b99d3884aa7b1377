"""The Dice score of soft masks, for segmentation. Milletari, Navab and Ahmadi 2016, with the denominator of Sorensen.

    D = (2 I + eps) / (U + eps),   I = Sum_i p_i t_i,   U = Sum_i p_i + Sum_i t_i
    dD/dp_i = (2 t_i (U + eps) - (2 I + eps)) / (U + eps)^2

Without eps this is 2 (t_i U - I) / U^2: a difference in the numerator, and the square belongs to the denominator.
"""

from derive.language import Sum, dims, index, leading_index, scalar, tensor
from derive.program import Program

N, M = dims("N M")
n = leading_index("n", N)
i = index("i", M)
p, t = tensor("p", N, M, positive=True), tensor("t", N, M, positive=True)
eps = scalar("eps", positive=True)

dice = Program("dice", "Dice score over the last axis", [p, t, eps])
I = dice.define("I", [n], Sum(p[n, i] * t[n, i], i))
U = dice.define("U", [n], Sum(p[n, i], i) + Sum(t[n, i], i))
D = dice.define("D", [n], (2 * I[n] + eps) / (U[n] + eps))
dice.kernel(D, wrt=[p], defaults={eps: 1.0})

backward = dice.gradient(D)
dD = backward["dD"]
backward.claim(
    "dice-backward", backward["dp"][n, i], dD[n] * (2 * t[n, i] * (U[n] + eps) - (2 * I[n] + eps)) / (U[n] + eps) ** 2,
    name="dD/dp = (2 t (U + eps) - (2 I + eps)) / (U + eps)^2",
)  # fmt: skip

# Without smoothing: the quotient rule, step by step.
plain = Program("dice_plain", "Dice score without smoothing", [p, t])
J = plain.define("I", [n], Sum(p[n, i] * t[n, i], i))
W = plain.define("U", [n], Sum(p[n, i], i) + Sum(t[n, i], i))
E = plain.define("D", [n], 2 * J[n] / W[n])
plain.steps(
    "dice-slope",
    plain.derivative(E[n], p[n, i]),
    (2 * t[n, i] * W[n] - 2 * J[n]) / W[n] ** 2,
    2 * (t[n, i] * W[n] - J[n]) / W[n] ** 2,
    (2 * t[n, i] - E[n]) / W[n],
    because=["quotient rule: dI/dp_i = t_i, dU/dp_i = 1", "2 taken out", "written with the score itself"],
)
plain.claim(
    "dice-symmetric", plain.derivative(E[n], t[n, i]), (2 * p[n, i] - E[n]) / W[n], name="the same with p and t swapped"
)
