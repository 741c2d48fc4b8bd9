"""Recurrent layers: a state that goes from step to step."""
