"""`agentflow view`: runs as a local page that shows them while they happen, and as a file that can be shared.

    lines     a file that grows, line by line
    rows      what a list shows of a trace
    sources   evaluations, trainings and files of traces, each kept up to date
    shelf     where they are found, and all of them together
    query     which rows of a list are asked for
    groups    the trajectories of one question, with their advantages
    tokens    every token of such a group, with what it was trained by
    pairs     the same questions in two places
    detail    one trace in full, with the memory that the planner read
    about     the figures above a list: curves of a training, comparison of evaluations
    guard     who may ask
    app       what is answered; static/ is the page itself
    export    reports: the page as one file (single_file), with the data of some runs inside

Nothing here calls a model or runs a graph: the page is for looking.
"""
