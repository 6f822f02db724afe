"""The roles of a prompt's fields, recognised from names, descriptions, types, shapes and the instruction."""
