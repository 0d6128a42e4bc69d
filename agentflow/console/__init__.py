"""What the command line shows: the terminal itself, runs, evaluations, checks, and progress of what takes long."""
