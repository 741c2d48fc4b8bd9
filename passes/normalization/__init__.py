"""Normalization by mean and variance."""
