"""`verihop artifact`: its commands; `app.py` registers them."""
