"""What all test cases share: a client for the server at GRAPH_SERVER_URL."""

import asyncio
import os
import unittest
import uuid

from langgraph_sdk import get_client

URL = os.environ["GRAPH_SERVER_URL"]


class Case(unittest.IsolatedAsyncioTestCase):
    """A test case with a client."""

    async def asyncSetUp(self):
        self.client = get_client(url=URL, api_key=None)
        self.threads = self.client.threads
        self.runs = self.client.runs
        self.assistants = self.client.assistants

    async def asyncTearDown(self):
        await self.client.aclose()

    async def thread(self, **options):
        """Creates a thread and returns its id."""
        return (await self.threads.create(**options))["thread_id"]

    async def stream(self, thread, graph, **options):
        """Runs a graph and returns all events of its stream."""
        return [it async for it in self.runs.stream(thread, graph, **options)]

    async def status(self, thread, run):
        return (await self.runs.get(thread, run))["status"]

    async def started(self, thread, run):
        """Waits until a run executes."""
        while await self.status(thread, run) == "pending":
            await asyncio.sleep(0.005)

    async def ticked(self, thread):
        """Waits until a thread of the graph `slow` has stored a tick."""
        while not (await self.threads.get_state(thread))["values"].get("ticks"):
            await asyncio.sleep(0.005)

    def fails_with(self, status):
        """Expects a response with this status."""
        return Failure(self, status)


class Failure:
    def __init__(self, case, status):
        self.case, self.status = case, status

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        self.case.assertIsNotNone(error, f"expected a response with status {self.status}")
        response = getattr(error, "response", None)
        self.case.assertIsNotNone(response, repr(error))
        self.case.assertEqual(response.status_code, self.status)
        return True


def names(events):
    """Returns the names of events, without the ids of tasks."""
    return [it.event.split(":")[0] for it in events]


def data(events, name):
    """Returns the data of the events with this name."""
    return [it.data for it in events if it.event == name]


def new_id():
    return str(uuid.uuid4())


SLOW = {"steps": 400, "delay": 0.02}
