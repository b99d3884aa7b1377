"""Stage 4: which values a kernel computes and saves, in what order, under which names."""
