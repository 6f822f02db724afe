"""`verihop distill`: a module for each larger command; `app.py` has the others and registers all."""
