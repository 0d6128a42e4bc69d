"""What wikipedia_search reads: the live Wikipedia, an index on this machine, or a retrieval server."""
