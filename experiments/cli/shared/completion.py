"""Words that a shell completes."""


def program_names(incomplete: str) -> list[str]:
    """Return the names of programs that begin with a word; no program is imported."""
    from programs.listing import listed

    return [name for name in listed() if name.startswith(incomplete)]


def shown_names(incomplete: str) -> list[str]:
    """Return what may follow `verihop programs`: the names, and its command `check`."""
    return [*(["check"] if "check".startswith(incomplete) else []), *program_names(incomplete)]
