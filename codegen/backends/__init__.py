"""The backends: an operator table and a template each. What differs between array libraries is here and nowhere else."""
