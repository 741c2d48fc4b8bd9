"""Passes for complex numbers and Fourier transforms."""
