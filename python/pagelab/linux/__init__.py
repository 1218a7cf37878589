"""The laboratory for real kernels: build Linux with `linux/patches`, boot it under QEMU, test it.

`layout` says where things are, `source` keeps the patched tree, `build` compiles it, `guest`
boots it and runs one command inside, `suite` runs what is under linux/tests and linux/bench.
"""
