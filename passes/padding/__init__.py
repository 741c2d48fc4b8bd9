"""Padding: what surrounds a tensor."""
