"""The benchmarks: ten published data sets, and Atlas. Each is one `Benchmark`, which evaluation and training share.

The package contains no rows. Data sets are downloaded into the user's cache (`store`), read from any local file
(`rows`) or generated (`puzzles`, `evals.atlas`). Subsets are lists of hashes (`subsets`).
"""
