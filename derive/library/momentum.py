"""Gradient descent with momentum, and where weight decay goes. Polyak 1964; Loshchilov and Hutter 2019.

    SGD      v' = mu v + g + decay theta,   theta' = theta - lr v'                        (as PyTorch's SGD)
    Adam+L2  g + decay theta goes through the moments, and so is divided by their root
    AdamW    theta' = theta - lr m^ / (sqrt(v^) + eps) - lr decay theta                   (in adamw.py)

For plain SGD a penalty decay |theta|^2 / 2 and shrinking the weight by 1 - lr decay are one and the same. For Adam they
are not: in the first step Adam moves by about lr times a sign, whatever the size of decay. The paper's own decay is not
multiplied by lr; that is AdamW with decay / lr.
"""

from sympy import Abs, Expr, sqrt

from derive.language import Sum, dims, index, iverson, leading_index, scalar, scalars, tensor
from derive.program import Program

N, T = dims("N T")
n = leading_index("n", N)
theta, g, v = tensor("theta", N), tensor("g", N), tensor("v", N)
lr, mu, decay = scalars("lr mu decay", positive=True)

sgd = Program("sgd", "one step of gradient descent with momentum", [theta, g, v, lr, mu, decay])
v_next = sgd.define("v_next", [n], mu * v[n] + g[n] + decay * theta[n])
theta_next = sgd.define("theta_next", [n], theta[n] - lr * v_next[n])
sgd.kernel(theta_next, v_next, defaults={mu: 0.9, decay: 0.0})

# Without momentum: the penalty's gradient and the shrinking of the weight.
w, slope = scalars("w slope")
plain = Program("sgd_decay", "L2 penalty and weight decay in plain gradient descent", [w, slope, lr, decay])
penalty = plain.define("penalty", [], decay * w**2 / 2)
shrunk = (1 - lr * decay) * w - lr * slope
penalised = plain.gradient(penalty)
penalised.steps(
    "sgd-decay",
    w - lr * (slope + penalised["dw"] / penalised["dpenalty"]),
    w - lr * (slope + decay * w),
    shrunk,
    because=["the gradient of decay w^2 / 2 is decay w", "the weight shrinks by 1 - lr decay, then takes its step"],
)

# Momentum unrolled: from rest, the velocity is the decayed sum of all gradients so far.
t = index("t", T)
r = index("r", T + 1)
force = tensor("force", T)
unrolled = Program("sgd_unrolled", "momentum over T steps", [force, mu])
velocity = unrolled.define("velocity", [r], Sum(iverson(t < r) * mu ** (r - 1 - t) * force[t], t))
unrolled.claim("momentum-start", velocity[0], 0, name="at rest before the first step")
unrolled.claim("momentum-step", velocity[t + 1], mu * velocity[t] + force[t], name="v' = mu v + g in every step")
unrolled.claim("momentum-sum", velocity[T], Sum(mu ** (T - 1 - t) * force[t], t), name="after T steps")

# Adam with an L2 penalty, one step; m and v are the moments, and the step number counts from 1.
m, s = tensor("m", N), tensor("s", N, positive=True)
count = scalar("count", positive=True, integer=True)
beta_1, beta_2, eps = scalars("beta_1 beta_2 eps", positive=True)
adam_l2 = Program(
    "adam_l2", "one step of Adam with an L2 penalty", [theta, g, m, s, count, lr, beta_1, beta_2, eps, decay]
)
total = adam_l2.define("total", [n], g[n] + decay * theta[n])
m_next = adam_l2.define("m_next", [n], beta_1 * m[n] + (1 - beta_1) * total[n])
s_next = adam_l2.define("s_next", [n], beta_2 * s[n] + (1 - beta_2) * total[n] ** 2)
moved = adam_l2.define(
    "moved", [n],
    theta[n] - lr * (m_next[n] / (1 - beta_1**count)) / (sqrt(s_next[n] / (1 - beta_2**count)) + eps),
)  # fmt: skip
adam_l2.kernel(moved, m_next, s_next, defaults={beta_1: 0.9, beta_2: 0.999, eps: 1e-8, decay: 0.01})

# The first step from empty moments: the bias correction gives back the gradient itself.
first = Program("adam_first", "the first step of Adam", [w, slope, lr, decay, eps, beta_1, beta_2])
penalised_slope = slope + decay * w


def first_move(gradient: Expr) -> Expr:
    """What Adam subtracts in its first step, from empty moments: lr m^ / (sqrt(v^) + eps)."""
    first_moment = (1 - beta_1) * gradient / (1 - beta_1)
    second_moment = (1 - beta_2) * gradient**2 / (1 - beta_2)
    return lr * first_moment / (sqrt(second_moment) + eps)


first.claim(
    "adam-first", first_move(slope), lr * slope / (Abs(slope) + eps), name="the first step is lr g / (|g| + eps)"
)
first.claim(
    "adam-l2", w - first_move(penalised_slope), w - lr * penalised_slope / (Abs(penalised_slope) + eps),
    name="with L2 the decay is inside the sign",
)  # fmt: skip
first.claim(
    "adam-decay-gap",
    (w - first_move(penalised_slope)) - (w - first_move(slope) - lr * decay * w),
    lr * (decay * w + slope / (Abs(slope) + eps) - penalised_slope / (Abs(penalised_slope) + eps)),
    name="how far Adam with L2 is from AdamW: not 0, unlike in plain descent",
)
