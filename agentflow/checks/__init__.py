"""What is there and whether it works: the machine, models and tools, each by trying it."""
