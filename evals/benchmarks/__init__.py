"""The benchmarks: ten data sets of others, and Atlas. Each is one `Benchmark`, which evaluation and training share.

No rows are kept here. Data sets are downloaded into the user's cache (`store`), read from any local file (`rows`), or
generated (`puzzles`, `evals.atlas`); subsets are lists of hashes (`subsets`).
"""
