"""A campaign of mutated files: nothing a stranger or a bad disk writes may crash, escape or pass unnoticed."""
