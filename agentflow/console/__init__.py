"""Terminal output of the command line: runs, evaluations, checks and progress."""
