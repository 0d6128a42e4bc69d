"""`agentflow view`: runs as a local page that shows them while they happen.

    lines     a file that grows, line by line
    rows      what a list shows of a trace
    sources   evaluations, trainings and files of traces, each kept up to date
    run_index finds the sources under the given roots
    query     which rows of a list are asked for
    groups    the trajectories of one question, with their advantages
    tokens    every token of such a group, with what it was trained by
    pairs     the same questions in two places
    detail    one trace in full, with the memory that the planner read
    guard     who may ask
    app       what is answered; static/ is the page itself

Nothing here writes a file, calls a model or runs a graph: the page is for looking.
"""
