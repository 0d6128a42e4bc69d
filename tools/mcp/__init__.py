"""Tools of MCP servers: how servers are named, sessions that last, and their tools as LangChain's."""
