"""The sandbox of python_coder: runs programs that a model wrote, beside API keys, thousands of times.

    execute ── fork_client ──(socket)── [bubblewrap] fork_server ──(fork)── confine, program

- `execute` is what the tool calls: a program and its `limits` in, an outcome out.
- `fork_client` starts a fork server in the strongest of the `tiers` that works, hands it programs and reads what they
  print. A program costs a fork and not the start of an interpreter.
- `fork_server` is trusted and never reads what a program wrote. In `bubblewrap` it has a root file system of its own.
- `confine` is what a forked child gives up before it is the program: see there for the layers, each a file.
- `program` runs the text as Python runs a script.
- `cold` is the tier without isolation, a fresh interpreter per program, for macOS and for those who ask for it.

What a program leaves behind: bytes in two pipes, and an exit status. Neither is interpreted.
"""
