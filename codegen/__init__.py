"""From proved programs to source: plan, print, check. Knows no operator by name; everything comes from the program."""
