"""Passes that compute in another floating-point type than the program does."""
