"""Atlas: a generated benchmark with an invented encyclopedia, so that no answer can be known from training data.

Its questions need tools, several turns and a decision when to stop. Every answer is checked exactly.
"""
