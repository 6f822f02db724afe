"""Shared by all packages: user errors, atomic files and locks, HTTP, English function words, library versions."""
