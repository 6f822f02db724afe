"""One file per command of `verihop`; heavy imports happen inside the commands."""
