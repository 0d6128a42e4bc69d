"""HTTP for the tools: pages whose address a model wrote, JSON APIs, and limits on the load of servers."""
