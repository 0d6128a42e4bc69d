"""What speaks HTTP for the tools: pages whose address a model wrote, and JSON APIs; and manners towards servers."""
