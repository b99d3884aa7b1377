"""Stage 1: definitions in forms that cost less, each rewrite an identity; what a form costs, and a trace."""
