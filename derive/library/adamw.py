"""AdamW: one step with decoupled weight decay and bias correction. Loshchilov and Hutter 2019, algorithm 2.

The decay is multiplied by the learning rate, as PyTorch does. The step number t counts from 1.
"""

from sympy import sqrt

from derive.language import dims, leading_index, scalar, scalars, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
theta, g, m = tensor("theta", N), tensor("g", N), tensor("m", N)
v = tensor("v", N, positive=True)
t = scalar("t", positive=True, integer=True)
lr, beta_1, beta_2, eps, weight_decay = scalars("lr beta_1 beta_2 eps weight_decay", positive=True)

adamw = Program("adamw", "one step of AdamW", [theta, g, m, v, t, lr, beta_1, beta_2, eps, weight_decay])
m_next = adamw.define("m_next", [n], beta_1 * m[n] + (1 - beta_1) * g[n])
v_next = adamw.define("v_next", [n], beta_2 * v[n] + (1 - beta_2) * g[n] ** 2)
m_hat = adamw.define("m_hat", [n], m_next[n] / (1 - beta_1**t))
v_hat = adamw.define("v_hat", [n], v_next[n] / (1 - beta_2**t))
theta_next = adamw.define(
    "theta_next", [n], theta[n] - lr * m_hat[n] / (sqrt(v_hat[n]) + eps) - lr * weight_decay * theta[n]
)
adamw.kernel(
    theta_next, m_next, v_next, defaults={beta_1: 0.9, beta_2: 0.999, eps: 1e-8, weight_decay: 0.01},
)  # fmt: skip
adamw.claim(
    "adamw", theta_next[n],
    (1 - lr * weight_decay) * theta[n] - lr * m_next[n] / (1 - beta_1**t) / (sqrt(v_next[n] / (1 - beta_2**t)) + eps),
    name="decay shrinks the weight, the moments move it",
)  # fmt: skip
adamw.claim(
    "B12", theta_next[n],
    theta[n] - lr * weight_decay * theta[n]
    - lr * (beta_1 * m[n] + (1 - beta_1) * g[n]) / (1 - beta_1**t)
    / (sqrt((beta_2 * v[n] + (1 - beta_2) * g[n] ** 2) / (1 - beta_2**t)) + eps),
    name="the update as published: decoupled decay, bias-corrected moments",
    note="in numbers: the generated kernel adamw equals torch.optim.AdamW step by step, examples/adamw_steps.py",
)  # fmt: skip

adamw.steps(
    "adamw-chain", theta_next[n],
    theta[n] - lr * m_hat[n] / (sqrt(v_hat[n]) + eps) - lr * weight_decay * theta[n],
    (1 - lr * weight_decay) * theta[n] - lr * m_hat[n] / (sqrt(v_hat[n]) + eps),
    because=["the step as published", "the decay shrinks the weight and does not pass through the moments"],
)  # fmt: skip
