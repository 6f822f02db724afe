"""`verihop artifact`: one module per command; `app.py` registers them."""
