"""Runs the whole cycle with the official MCP client and prints the results as one JSON object."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM, WORKSPACE = sys.argv[1:3]


async def main():
    server = StdioServerParameters(command=PROGRAM, args=["serve", "--workspace", WORKSPACE, "--worker", "implementer"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()

        async def call(name, **arguments):
            result = await session.call_tool(name, arguments)
            reply = result.model_dump(by_alias=True, mode="json")
            if reply.get("isError"):
                return {"error": reply["content"][0]["text"]}
            return reply["structuredContent"]

        seen = {"tools": {it.name: sorted(it.model_dump(by_alias=True)["inputSchema"]["properties"])
                          for it in (await session.list_tools()).tools}}
        task = "phase10_version_flag"
        draft = await call("ollama_request_draft", source_path="src/watchdog.py", task_id=task)
        seen["requested"] = draft
        path = draft["draft_path"]
        old = (await call("ollama_read_draft", draft_path=path))["content"]
        new = old.replace("def main():\n", "def main():\n    if '--version' in sys.argv:\n        print('1.0')\n        return\n")
        seen["written"] = await call("ollama_write_draft", draft_path=path, content=new)
        seen["read"] = await call("ollama_read_draft", draft_path=path)
        seen["submitted"] = await call("ollama_submit_draft", draft_path=path, original_path="src/watchdog.py",
                                       task_id=task, change_summary="Added --version flag handling in main()")
        seen["inbox"] = await call("ollama_read_inbox", task_id=task)
        seen["replayed"] = await call("ollama_submit_draft", draft_path=path, original_path="src/watchdog.py",
                                      task_id=task, change_summary="again")
        seen["outside"] = await call("ollama_request_draft", source_path="../outside.txt", task_id=task)
        seen["elsewhere"] = await call("ollama_write_draft", draft_path="src/watchdog.py", content="x")

        draft = await call("ollama_request_draft", source_path="src/key.py", task_id=task, operation="create")
        await call("ollama_write_draft", draft_path=draft["draft_path"], content=f"KEY = '{sys.argv[3]}'\n")
        seen["secret"] = await call("ollama_submit_draft", draft_path=draft["draft_path"], original_path="src/key.py",
                                    task_id=task, change_summary="adds a key")

        draft = await call("ollama_request_draft", source_path="src/old.py", task_id=task, operation="delete")
        seen["deletion"] = await call("ollama_submit_draft", draft_path=draft["draft_path"],
                                      original_path="src/old.py", task_id=task, change_summary="no longer needed")
        print(json.dumps(seen))


asyncio.run(main())
