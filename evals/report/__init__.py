"""Reports on evaluations: the figures of their folders, one page of HTML, and pictures."""
