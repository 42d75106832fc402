"""Metrics as plain numpy over judged rankings."""
