"""The mathematics: statements in index notation, their gradients, and proofs for all sizes."""
