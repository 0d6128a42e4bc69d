"""`agentflow view`: runs as a local web page, updated while they run, and as a file that can be shared.

    lines        a growing file, read line by line
    rows         a trace as a row of a list
    calls        prompts and replies of a trace
    sources      evaluations, trainings and trace files
    run_index    the sources below some folders
    search       text in traces
    query        filters, order and pages of a list
    groups       the trajectories of one question, with their advantages
    pairs        the same questions in two sources
    detail       one trace in full, with the planner's conversation
    about        the figures above a list: curves of a training, comparison of evaluations
    guard        access control
    app          the server; static/ is the page
    export       reports: the page as one file (single_file), with the data of some runs inside

It only reads: no part runs a graph or writes a file.
"""
