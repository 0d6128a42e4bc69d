"""Evolution of the prompts of named nodes by reflection, with the package `gepa` and without torch, verl or ray.

A candidate is one system message for each of the nodes. `search` runs tasks with a candidate, a reflection model reads
the calls of one node with their rewards and writes another prompt for it, and `gepa` decides which candidates to keep.

Source: L. A. Agrawal et al., "GEPA: Reflective prompt evolution can outperform reinforcement learning", 2025.
"""
