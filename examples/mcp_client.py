"""The agent as an MCP server, asked by a client as other assistants have one.

    python -m examples.mcp_client

Needs the extra mcp: pip install '.[mcp]'. An assistant that reads a file of servers gets the same by
{"mcpServers": {"agentflow": {"command": "agentflow", "args": ["mcp"]}}}.
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters

server = StdioServerParameters(command=sys.executable, args=["-m", "agentflow", "mcp", "--max-turns", "6"])


async def progress(turn: float, most: float | None, step: str | None) -> None:
    """Print the progress that is reported after every turn."""
    print(f"turn {turn:g} of at most {most:g}: {step}")


async def main() -> None:
    """Asks one question."""
    async with Client(server) as client:
        question = {"question": "How many feet are 3 yards?"}
        reply = await client.call_tool("ask", question, progress_callback=progress)
        print(reply.content[0].text)


if __name__ == "__main__":
    asyncio.run(main())
