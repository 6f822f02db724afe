"""How a wheel is built: all packages of the repository as parts of `verihop`."""
