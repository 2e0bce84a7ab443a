"""Steps that many cases share."""

import asyncio
import time
import uuid
from contextlib import contextmanager

import httpx
import pytest

# Namespace from which the ids of the assistants that the server creates for its graphs are derived.
GRAPH_NAMESPACE = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

# Result of the graph `tiny` for the input `TINY_INPUT`.
TINY_INPUT = {"value": "x"}
TINY_RESULT = {"value": "xab", "log": ["a", "b"], "count": 2}


def assistant_of(graph):
    """Returns the id of the assistant that the server creates for a graph."""
    return str(uuid.uuid5(GRAPH_NAMESPACE, graph))


def unique(prefix="case"):
    """Returns a name that no other case uses."""
    return f"{prefix}-{uuid.uuid4().hex}"


def user(text):
    """Returns the input of the graph `chat` for one message of the user."""
    return {"messages": [{"role": "user", "content": text}]}


async def new_thread(client, **options):
    return (await client.threads.create(**options))["thread_id"]


async def finished_thread(client, graph="tiny", **options):
    """Creates a thread, runs a graph on it and returns the thread's id."""
    thread = await new_thread(client)
    options.setdefault("input", TINY_INPUT)
    await client.runs.wait(thread, graph, **options)
    return thread


async def collect(stream):
    """Reads a stream to its end."""
    return [part async for part in stream]


def data_of(parts, event):
    """Returns the data of all events of one name."""
    return [part.data for part in parts if part.event == event]


def names_of(parts):
    """Returns the names of the events in order, without repetitions of neighbours."""
    names = []
    for part in parts:
        if not names or names[-1] != part.event:
            names.append(part.event)
    return names


async def until(probe, seconds=240):
    """Calls `probe` until it returns something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        result = await probe()
        if result:
            return result
        assert time.monotonic() < deadline, f"the condition did not become true within {seconds} s"
        await asyncio.sleep(0.05)


async def until_status(client, thread, run, *statuses):
    """Waits until a run has one of the statuses, and returns the run."""

    async def probe():
        found = await client.runs.get(thread, run)
        return found if found["status"] in statuses else None

    return await until(probe)


async def started_slow_run(client, thread, steps=400, delay=0.25, **options):
    """Starts the graph `slow` in the background and waits until its first step is saved."""
    run = await client.runs.create(thread, "slow", input={"steps": steps, "delay": delay}, **options)

    async def has_ticked():
        values = (await client.threads.get_state(thread))["values"]
        return values and values.get("ticks", 0) > 0

    await until(has_ticked)
    return run["run_id"]


@contextmanager
def status_error(*codes):
    """Expects the server to reject a request with one of the status codes."""
    with pytest.raises(httpx.HTTPStatusError) as caught:
        yield caught
    assert caught.value.response.status_code in codes, caught.value
