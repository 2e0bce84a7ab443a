"""Cancellation of a run of a program whose runs do not end by themselves.

The environment variables `PROGRAM_GRAPH` and `PROGRAM_INPUT` are the same as in `program_runs.py`.
"""

import json
import os

from flows import new_thread, status_error, until

GRAPH = os.environ["PROGRAM_GRAPH"]
INPUT = json.loads(os.environ["PROGRAM_INPUT"])


async def test_a_run_is_cancelled(client):
    thread = await new_thread(client)
    run = (await client.runs.create(thread, GRAPH, input=INPUT))["run_id"]
    async for part in client.runs.join_stream(thread, run, stream_mode="custom"):
        if part.event == "custom":
            break
    assert (await client.runs.get(thread, run))["status"] == "running"
    assert (await client.threads.get(thread))["status"] == "busy"
    await client.runs.cancel(thread, run, wait=True)
    assert (await client.runs.get(thread, run))["status"] == "interrupted"

    async def is_idle():
        return (await client.threads.get(thread))["status"] != "busy"

    await until(is_idle)
    with status_error(404, 409):
        await client.runs.cancel(thread, run)
