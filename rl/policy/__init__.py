"""The policy: the chat model that is trained, its chat format, and the nodes that it answers."""
