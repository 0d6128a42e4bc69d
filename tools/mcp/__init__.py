"""Tools of MCP servers: specs of servers, persistent sessions, and their tools as LangChain tools."""
