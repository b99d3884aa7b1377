"""What PyTorch does in one call is printed as one call: products added up, bands, multiples; NumPy's text has none."""

from __future__ import annotations

import pytest
from sympy import sqrt

from codegen.printing.emission import kernel_file
from derive.functions import softmax
from derive.language import Sum, dims, index, indices, scalar, tensor
from derive.program import Program

T, d, e = dims("T d e")
i, j = indices("i j", T)
a, c = index("a", d), index("c", e)
x, y = tensor("x", T, d), tensor("y", T, d)
V, W, b = tensor("V", e, d), tensor("W", e, d), tensor("b", e)


def two_products() -> Program:
    program = Program("two_products", "the sum of two products", [x, y, V, W])
    program.kernel(program.define("z", [i, c], Sum(V[c, a] * x[i, a], a) + Sum(W[c, a] * y[i, a], a)), wrt=[x])
    return program


def causal() -> Program:
    program = Program("causal", "causal attention", [x, y])
    S = program.define("S", [i, j], Sum(x[i, a] * y[j, a], a) / sqrt(d))
    A = program.define("A", [i, j], softmax(S[i, j], over=j, where=j <= i))
    program.kernel(program.define("O", [i, a], Sum(A[i, j] * y[j, a], j)), wrt=[x])
    return program


def biased() -> Program:
    program = Program("biased", "a layer with a bias and a square", [x, W, b])
    u = program.define("u", [i, c], Sum(W[c, a] * x[i, a], a) + b[c])
    h = program.define("h", [i, c], u[i, c] ** 2 + 3 * u[i, c] / (1 + u[i, c] ** 2))
    program.kernel(program.define("z", [i, a], Sum(W[c, a] * h[i, c], c)), wrt=[x, W])
    return program


def descent() -> Program:
    v, w, rate, decay = tensor("v", e), tensor("w", e), scalar("rate"), scalar("decay")
    program = Program("descent", "a step downhill with a mean of squares", [b, v, w, rate, decay])
    s = program.define("s", [c], decay * v[c] + (1 - decay) * w[c] ** 2)
    program.kernel(program.define("z", [c], b[c] - rate * w[c] / sqrt(s[c]) - decay * b[c]))
    return program


@pytest.mark.parametrize(
    ("program", "call"),
    [(two_products(), "addmm_("), (causal(), ".tril_(i.start - j.start)"), (causal(), "vector_norm"),
     (biased(), "torch.addmm(b, "), (descent(), "torch.addcmul(s, w_c, w_c, value=1 - decay, out=s)"),
     (descent(), "torch.add(b_c, z_c, alpha=-rate, out=z_c)"),
     (descent(), "torch.add(z_c, b_c, alpha=-decay, out=z_c)")],
    ids=["products", "band", "norm", "bias", "square", "computed", "multiple"],
)  # fmt: skip
def test_one_call(program: Program, call: str) -> None:
    assert call in kernel_file(program, "torch")
    assert call not in kernel_file(program, "numpy")


def test_operations_beside_blocks_are_held_unless_some_are_products() -> None:
    assert kernel_file(causal(), "torch").count("@holding_cores\ndef ") == 4
    assert "@holding_cores" not in kernel_file(causal(), "numpy")
    both = causal()
    both.kernel(both.define("z", [i, c], Sum(V[c, a] * both["O"][i, a], a)), wrt=[x])
    assert "workspace.sweep(" in kernel_file(both, "torch")
    assert "@holding_cores" not in kernel_file(both, "torch")
