"""A campaign of mutated files: no malformed file may crash a command, write elsewhere or pass unnoticed."""
