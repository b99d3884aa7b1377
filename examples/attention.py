"""Scaled dot-product attention in ten lines, two claims about its gradient (one of them wrong), and a kernel."""

from gradproof import Program, Sum, dims, index, indices, matrix, row_sum, softmax, sqrt, tensors

T, d = dims("T d")
i, j = indices("i j", T)
a = index("a", d)
Q, K, V = tensors("Q K V", T, d)

attention = Program("my_attention", "scaled dot-product attention", [Q, K, V])
S = attention.define("S", [i, j], Sum(Q[i, a] * K[j, a], a) / sqrt(d))
A = attention.define("A", [i, j], softmax(S[i, j], over=j))
O = attention.define("O", [i, a], Sum(A[i, j] * V[j, a], j))
attention.kernel(O, wrt=[Q, K, V])

gradient = attention.gradient(O)
mA, dA, dS, dQ = (matrix(x) for x in (A, gradient["dA"], gradient["dS"], gradient["dQ"]))
gradient.claim("dS", dS, mA * (dA - row_sum(dA * mA)), name="the textbook formula")
gradient.claim("dQ", dQ, dS @ matrix(K), name="somebody forgot 1/sqrt(d)")
