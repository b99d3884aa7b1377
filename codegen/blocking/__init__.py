"""Stage 4, continued: which statements are computed block by block, over which indices, in which memory."""
