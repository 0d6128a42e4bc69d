"""The sources of wikipedia_search: the live Wikipedia, a local index, or a retrieval server."""
