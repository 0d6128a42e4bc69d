"""The sandbox of python_coder, for programs written by a model: thousands of them, on a host that holds API keys.

    execute ── fork_client ──(socket)── [bubblewrap] fork_server ──(fork)── confine, program

- `execute` is the entry point of the tool: it takes a program and its `limits` and returns an outcome.
- `fork_client` starts a fork server in the strongest of the `tiers` that works, sends it programs and reads their
  output. A program costs a fork instead of the start of an interpreter.
- `fork_server` is trusted and never reads a program's output. Under `bubblewrap` it has a separate root file system.
- `confine` drops privileges in the forked child before the program runs. Its layers have one module each.
- `program` runs the source as Python runs a script.
- `plain_subprocess` is the tier without isolation: a fresh interpreter per program, on macOS or on request.

A program's only outputs are the bytes in two pipes and an exit status. Neither is interpreted.
"""
