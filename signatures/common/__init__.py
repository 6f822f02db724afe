"""What every package needs that is no signature: the user error, atomic files, library versions."""
