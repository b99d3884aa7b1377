"""Stages 5 and 6: from statements to the text of a file, in the words of an array library."""
