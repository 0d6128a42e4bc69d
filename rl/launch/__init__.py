"""Launch of a training: what is asked, estimated and tried before the first worker, and the start of Ray."""
