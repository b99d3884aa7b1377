"""The backends: an operator table and a template each. All that differs between array libraries is here."""
