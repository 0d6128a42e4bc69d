"""The modules of the agent, one file each: a prompt, and the parser of the replies to it."""
