"""Stage 2: exponentials, logarithms and quotients in forms that neither overflow nor lose their last digits."""
