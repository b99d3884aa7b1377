"""Online softmax: sums of exponentials in blocks, and the merge of two blocks. Milakov and Gimelshein 2018.

A block of keys is summed up as a scale m and a scaled sum x = Sum_j exp(s_j - m) v_j; with v = 1 it is the normaliser.
Whatever m is, the pair stands for the number x e^m. Two blocks are merged by

    M = max(m, m'),   (m, x) + (m', x') = (M, x e^(m - M) + x' e^(m' - M))

and the result stands for the sum of both numbers. So the merge is associative and commutative, the order of the blocks
does not matter, and the quotient of two such sums is softmax over the union of the keys.

The kernel merges any number of finished blocks, each an output O_p with the logsumexp L_p of its scores, as split-key
attention and ring attention need it: L = log(Sum_p e^L_p), O = Sum_p e^(L_p - L) O_p. `allowed` is 0 for a block
without a key.
"""

from sympy import Expr, Max, exp, log

from derive.functions import logsumexp, softmax
from derive.language import Sum, dims, index, iverson, leading_index, scalar, scalars, tensor
from derive.program import Program

T, C, N, P = dims("T C N P")
j = index("j", T)
c = index("c", C)
s, v = tensor("s", T), tensor("v", T, C)
cut = scalar("cut", integer=True)
m_1, m_2, m_3, x_1, x_2, x_3 = scalars("m_1 m_2 m_3 x_1 x_2 x_3")

# The monoid of scaled sums.
Pair = tuple[Expr, Expr]


def merged(first: Pair, second: Pair) -> Pair:
    """(m, x) + (m', x')."""
    top = Max(first[0], second[0])
    return top, first[1] * exp(first[0] - top) + second[1] * exp(second[0] - top)


a, b, d = (m_1, x_1), (m_2, x_2), (m_3, x_3)
monoid = Program("online_softmax", "merging scaled sums", [m_1, x_1, m_2, x_2, m_3, x_3])
top, value = merged(a, b)
monoid.claim("online-value", value * exp(top), x_1 * exp(m_1) + x_2 * exp(m_2), name="the merge stands for the sum")
monoid.claim("online-commutes", value, merged(b, a)[1], name="the merge is commutative")
left, right = merged(merged(a, b), d), merged(a, merged(b, d))
monoid.claim("online-associative", left[0], right[0], name="the merge is associative in its scale")
monoid.claim("online-associative", left[1], right[1], name="and in its scaled sum")
monoid.claim("online-identity", merged(a, (m_1, 0))[1], x_1, name="an empty block changes nothing")

# Two blocks of one row of keys: those before `cut` and the rest, each with a scale of its own.
blocks = Program("online_softmax_blocks", "softmax of a row from two blocks of its keys", [s, v, cut, m_1, m_2])
x1 = blocks.define("x1", [c], Sum(iverson(j < cut) * exp(s[j] - m_1) * v[j, c], j))
l1 = blocks.define("l1", [], Sum(iverson(j < cut) * exp(s[j] - m_1), j))
x2 = blocks.define("x2", [c], Sum(iverson(j >= cut) * exp(s[j] - m_2) * v[j, c], j))
l2 = blocks.define("l2", [], Sum(iverson(j >= cut) * exp(s[j] - m_2), j))
M = blocks.define("M", [], Max(m_1, m_2))
x = blocks.define("x", [c], merged((m_1, x1[c]), (m_2, x2[c]))[1])
l = blocks.define("l", [], merged((m_1, l1), (m_2, l2))[1])
blocks.claim(
    "online-tile", x1[c] * exp(m_1 - m_2) + Sum(iverson(j >= cut) * exp(s[j] - m_2) * v[j, c], j),
    Sum(exp(s[j] - m_2) * v[j, c], j), name="what was gathered is brought to a new scale, the next tile is added",
)  # fmt: skip
blocks.claim("online-lse", M + log(l), logsumexp(s[j], over=j), name="scale and sum give the logsumexp of all keys")
blocks.steps(
    "online",
    x[c] / l,
    (x1[c] * exp(m_1) + x2[c] * exp(m_2)) / (l1 * exp(m_1) + l2 * exp(m_2)),
    Sum((iverson(j < cut) + iverson(j >= cut)) * exp(s[j]) * v[j, c], j)
    / Sum((iverson(j < cut) + iverson(j >= cut)) * exp(s[j]), j),
    Sum(softmax(s[j], over=j) * v[j, c], j),
    because=[
        "above and below times e^M",
        "e^m takes the scale off a block; two sums over keys are one",
        "every key is in one of the blocks: softmax over the union",
    ],
)

# The kernel: any number P of finished blocks, by their logsumexps.
n = leading_index("n", N)
p = index("p", P)
outputs, scales = tensor("outputs", N, P, C), tensor("scales", N, P)
allowed = tensor("allowed", N, P, into=2)
merge = Program("attention_merge", "merge of attention over blocks of keys", [outputs, scales, allowed])
L = merge.define("L", [n], logsumexp(scales[n, p], over=p, where=allowed[n, p] > 0))
w = merge.define("w", [n, p], softmax(scales[n, p], over=p, where=allowed[n, p] > 0))
O = merge.define("O", [n, c], Sum(w[n, p] * outputs[n, p, c], p))
merge.kernel(O, L)
merge.claim(
    "merge-output", O[n, c] * exp(L[n]), Sum(iverson(allowed[n, p] > 0) * outputs[n, p, c] * exp(scales[n, p]), p),
    name="the blocks' unnormalised outputs add up",
)  # fmt: skip
merge.claim("merge-weights", w[n, p], iverson(allowed[n, p] > 0) * exp(scales[n, p] - L[n]), name="weights e^(L_p - L)")
merge_backward = merge.gradient(O)
dO = merge_backward["dO"]
merge_backward.claim(
    "merge-dscales", merge_backward["dscales"][n, p],
    w[n, p] * Sum(dO[n, c] * (outputs[n, p, c] - O[n, c]), c), name="dL_p = w_p dO.(O_p - O)",
)  # fmt: skip
