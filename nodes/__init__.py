"""The modules of the agent, one file each: its prompt beside the parser of what the prompt asks for."""
