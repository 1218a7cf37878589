"""Many simulations from one file: `pagelab sweep`."""
