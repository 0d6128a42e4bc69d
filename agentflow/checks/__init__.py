"""Health checks of the machine, the models and the tools; each check uses the part that it checks."""
