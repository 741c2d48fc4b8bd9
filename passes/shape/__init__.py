"""Views, diagonals, triangles and repetition: where elements go, not what they are."""
