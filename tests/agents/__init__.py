"""Small agents in the shapes that people export; none of them knows AgentFlow."""
