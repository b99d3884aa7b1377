"""The decision procedure: a normal form for expressions over symbolic ranges."""
