"""Runs each asynchronous case in its own event loop, with a client that is closed afterwards, and bounds its time."""

import asyncio
import inspect
import os

import pytest
from langgraph_sdk import get_client

URL = os.environ["GRAPH_SERVER_URL"].rstrip("/")

# Upper bound for one case. It is generous because the machine may be busy.
CASE_SECONDS = 600


def pytest_configure(config):
    config.addinivalue_line("markers", "fault_of_langgraph(reason): LangGraph's own server fails this case")


def pytest_collection_modifyitems(items):
    """Expects the cases to fail that LangGraph's own server fails, if that is the server under test."""
    if os.environ.get("GRAPH_SERVER_IS_LANGGRAPH") != "1":
        return
    for item in items:
        for mark in item.iter_markers("fault_of_langgraph"):
            item.add_marker(pytest.mark.xfail(reason=mark.args[0]))


@pytest.fixture
def client():
    # The default timeout for connecting is 5 seconds.
    return get_client(url=URL, api_key=None, timeout=CASE_SECONDS)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    args = {name: pyfuncitem.funcargs[name] for name in names}

    async def run():
        try:
            await asyncio.wait_for(function(**args), CASE_SECONDS)
        finally:
            if "client" in args:
                await args["client"].aclose()

    asyncio.run(run())
    return True
