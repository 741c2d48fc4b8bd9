"""Resampling: the same signal on another grid."""
