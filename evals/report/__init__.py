"""Reports on evaluations: one HTML page, figures as files, and the paper's numbers for comparison."""
