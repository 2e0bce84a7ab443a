"""Lists and calls the graphs of a server with the official MCP client."""

import asyncio
import sys

from mcp import Client


async def main(url):
    async with Client(url) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["tiny"].input_schema["type"] == "object", tools["tiny"]
        result = await client.call_tool("tiny", {"value": "x"})
        assert not result.is_error, result
        assert result.structured_content["value"] == "xab", result
        failed = await client.call_tool("fail", {"log": []})
        assert failed.is_error, failed
        assert failed.content[0].text == "ValueError: boom", failed


asyncio.run(main(sys.argv[1]))
