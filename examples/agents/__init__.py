"""Agents as people write them, none of which knows AgentFlow; each is trained as it stands.

agentflow train examples.agents.tools:agent --tasks sums.jsonl --reward examples.agents.sums:score
"""
