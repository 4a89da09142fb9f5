"""The thesis on KALMAN-BLAWLB: its tables and levels."""
