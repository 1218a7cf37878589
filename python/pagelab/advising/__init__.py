"""Advice on settings that this machine has: each is tried on the program itself, natively."""
