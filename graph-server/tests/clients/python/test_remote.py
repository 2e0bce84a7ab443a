"""LangGraph's `RemoteGraph`, which uses a graph of the server as if it were local."""

import asyncio

from conftest import URL
from flows import TINY_INPUT, TINY_RESULT, new_thread
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command

import pytest


def remote(name):
    return RemoteGraph(name, url=URL, api_key=None)


def test_remote_graph_is_invoked_streamed_and_drawn():
    graph = remote("tiny")
    assert graph.invoke(TINY_INPUT) == TINY_RESULT
    chunks = list(graph.stream(TINY_INPUT, stream_mode="updates"))
    assert [list(it) for it in chunks] == [["a"], ["b"]]
    assert set(graph.get_graph().nodes) == {"__start__", "a", "b", "__end__"}


async def test_remote_graph_reads_and_writes_the_state_of_a_thread(client):
    config = {"configurable": {"thread_id": await new_thread(client)}}
    graph = remote("tiny")
    assert await graph.ainvoke(TINY_INPUT, config) == TINY_RESULT
    state = await graph.aget_state(config)
    assert state.values == TINY_RESULT and state.next == ()
    history = [it async for it in graph.aget_state_history(config)]
    assert [it.metadata["step"] for it in history] == [2, 1, 0, -1]
    await graph.aupdate_state(config, {"value": "new"}, as_node="a")
    assert (await graph.aget_state(config)).next == ("b",)
    assert (await graph.ainvoke(None, config))["value"] == "newb"


async def test_remote_graph_is_interrupted_and_resumed(client):
    config = {"configurable": {"thread_id": await new_thread(client)}}
    graph = remote("approval")
    waiting = await graph.ainvoke({"topic": "cats"}, config)
    assert waiting["__interrupt__"][0]["value"]["question"] == "approve?"
    state = await graph.aget_state(config)
    assert state.next == ("review",) and state.tasks[0].interrupts[0].value["question"] == "approve?"
    result = await graph.ainvoke(Command(resume="yes"), config)
    assert result["decision"] == "yes"


async def test_remote_graph_streams_subgraphs(client):
    config = {"configurable": {"thread_id": await new_thread(client)}}
    pairs = remote("parent").astream({"log": []}, config, stream_mode="updates", subgraphs=True)
    found = [(len(namespace), list(update)) async for namespace, update in pairs]
    assert found == [(0, ["p0"]), (1, ["c1"]), (1, ["c2"]), (0, ["child"]), (0, ["p9"])]


async def test_remote_graph_reports_the_error_of_a_node():
    with pytest.raises(Exception, match="boom"):
        await asyncio.wait_for(remote("fail").ainvoke({"log": []}), 300)
