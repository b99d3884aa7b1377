"""What the compiler works on once bodies are lowered: nodes, trees of nodes, and statements that name them."""
