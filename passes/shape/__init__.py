"""Passes over the shape of tensors: pieces, order, diagonals and windows."""
