"""Passes over the program as a whole."""
