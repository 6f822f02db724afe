"""`verihop distill`: one module per command; `app.py` registers them."""
