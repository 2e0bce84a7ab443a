"""Connects to an MCP server with the official client, calls its only tool, and prints the name and the result."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main():
    kind, *target = sys.argv[1:]
    if kind == "http":
        transport = streamable_http_client(target[0])
    else:
        transport = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        result = await session.call_tool(tools[0].name, {"message": "How is the weather?"})
        print(f"{tools[0].name}: {result.content[0].text}")


asyncio.run(main())
