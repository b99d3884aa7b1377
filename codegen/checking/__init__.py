"""Kernels in numbers: against the statement, finite differences and autograd."""
