"""Shared by all packages: user errors, atomic files, locks, HTTP, forks, English function words, library versions."""
