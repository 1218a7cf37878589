"""The measurements of the FBMM paper (ATC 2024), each a part that is computed by itself."""
