"""The passport of an evaluation: what its scores were made with, what stands against repeating them, and an audit."""
