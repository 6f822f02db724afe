"""Tables and figures of the four papers, each a TOML file, and the one runner that reads them."""
