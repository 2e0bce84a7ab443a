"""Stream modes, subgraphs, and resumable streams."""

import asyncio

import httpx
import pytest
from conftest import URL
from flows import TINY_INPUT, TINY_RESULT, collect, data_of, names_of, new_thread, until, user


async def stream(client, graph, given, **options):
    """Streams one run on a new thread to its end."""
    return await collect(client.runs.stream(await new_thread(client), graph, input=given, **options))


async def test_default_mode_streams_values(client):
    created = []
    thread = await new_thread(client)
    parts = await collect(client.runs.stream(thread, "tiny", input=TINY_INPUT, on_run_created=created.append))
    assert names_of(parts) == ["metadata", "values"]
    assert parts[0].data["run_id"] == created[0]["run_id"] and created[0]["thread_id"] == thread
    assert [it["value"] for it in data_of(parts, "values")] == ["x", "xa", "xab"]
    assert parts[-1].data == TINY_RESULT


async def test_mode_updates(client):
    parts = await stream(client, "tiny", TINY_INPUT, stream_mode="updates")
    assert data_of(parts, "updates") == [
        {"a": {"value": "xa", "log": ["a"], "count": 1}},
        {"b": {"value": "xab", "log": ["b"], "count": 1}},
    ]


async def test_mode_custom(client):
    parts = await stream(client, "slow", {"steps": 3, "delay": 0}, stream_mode="custom")
    assert data_of(parts, "custom") == [{"tick": 1}, {"tick": 2}, {"tick": 3}]


async def test_mode_tasks(client):
    parts = await stream(client, "tiny", TINY_INPUT, stream_mode="tasks")
    starts = [it for it in data_of(parts, "tasks") if "input" in it]
    results = [it for it in data_of(parts, "tasks") if "result" in it]
    assert [it["name"] for it in starts] == ["a", "b"] == [it["name"] for it in results]
    assert [it["id"] for it in starts] == [it["id"] for it in results]
    assert starts[1]["input"] == {"value": "xa", "log": ["a"], "count": 1} and starts[0]["triggers"]
    assert results[0]["result"] == {"value": "xa", "log": ["a"], "count": 1}
    assert results[0]["error"] is None and results[0]["interrupts"] == []


async def test_mode_checkpoints(client):
    parts = await stream(client, "tiny", TINY_INPUT, stream_mode="checkpoints")
    found = data_of(parts, "checkpoints")
    assert [it["metadata"]["step"] for it in found] == [-1, 0, 1, 2]
    assert [it["next"] for it in found] == [["__start__"], ["a"], ["b"], []]
    assert found[-1]["values"] == TINY_RESULT
    ids = [it["config"]["configurable"]["checkpoint_id"] for it in found]
    assert ids == sorted(ids) and len(set(ids)) == 4
    assert found[0]["parent_config"] is None
    assert found[1]["parent_config"]["configurable"]["checkpoint_id"] == ids[0]


async def test_checkpoints_refer_to_subgraphs_and_to_the_enclosing_graphs(client):
    parts = await stream(client, "parent", {"log": []}, stream_mode=["checkpoints", "debug"], stream_subgraphs=True)
    (outer,) = [it for it in data_of(parts, "checkpoints") if it["next"] == ["child"]]
    (task,) = outer["tasks"]
    namespace, thread = f"child:{task['id']}", outer["config"]["configurable"]["thread_id"]
    subgraph = {"thread_id": thread, "checkpoint_ns": namespace}
    assert task["state"] == {"configurable": subgraph}

    inner = data_of(parts, f"checkpoints|{namespace}")
    assert [it["next"] for it in inner] == [["__start__"], ["c1"], ["c2"], []]
    outer_id = outer["config"]["configurable"]["checkpoint_id"]
    for it in inner:
        config = it["config"]["configurable"]
        assert config["checkpoint_map"] == {"": outer_id, namespace: config["checkpoint_id"]}
        assert it["metadata"]["parents"] == {"": outer_id}

    debug = [it["payload"] for it in data_of(parts, "debug") if it["type"] == "checkpoint"]
    (task,) = [it for found in debug for it in found["tasks"] if it["name"] == "child"]
    assert task["checkpoint"] == subgraph and "state" not in task
    debug = [it["payload"] for it in data_of(parts, f"debug|{namespace}") if it["type"] == "checkpoint"]
    maps = [it["checkpoint"]["checkpoint_map"] for it in debug]
    assert maps == [it["config"]["configurable"]["checkpoint_map"] for it in inner]


async def test_mode_debug(client):
    parts = await stream(client, "tiny", TINY_INPUT, stream_mode="debug")
    kinds = [(it["type"], it["step"]) for it in data_of(parts, "debug")]
    expected = [("checkpoint", -1), ("checkpoint", 0), ("task", 1), ("task_result", 1)]
    assert kinds == [*expected, ("checkpoint", 1), ("task", 2), ("task_result", 2), ("checkpoint", 2)]
    payloads = [it["payload"] for it in data_of(parts, "debug") if it["type"] == "task"]
    assert [it["name"] for it in payloads] == ["a", "b"] and payloads[0]["id"]


async def test_mode_events(client):
    parts = await stream(client, "tiny", TINY_INPUT, stream_mode="events")
    found = data_of(parts, "events")
    assert found[0]["event"] == "on_chain_start" and found[-1]["event"] == "on_chain_end"
    assert [it["name"] for it in found if it["event"] == "on_chain_start"][1:] == ["a", "b"]
    assert found[-1]["data"]["output"] == TINY_RESULT
    ended = [it for it in found if it["event"] == "on_chain_end" and it["name"] == "b"]
    assert [it["data"]["input"] for it in ended] == [{"value": "xa", "log": ["a"], "count": 1}]


async def test_events_end_only_the_nodes_that_have_finished(client):
    parts = await stream(client, "approval", {"topic": "cats"}, stream_mode="events")
    ended = [it["name"] for it in data_of(parts, "events") if it["event"] == "on_chain_end"]
    assert ended == ["draft", "approval"]


async def test_events_contain_the_nodes_of_subgraphs(client):
    nodes = ["p0", "child", "c1", "c2", "p9"]
    for subgraphs in (False, True):
        parts = await stream(client, "parent", {"log": []}, stream_mode="events", stream_subgraphs=subgraphs)
        assert {it.event for it in parts} == {"metadata", "events"}
        started = [it for it in data_of(parts, "events") if it["event"] == "on_chain_start"]
        assert [it["name"] for it in started if it["name"] in nodes] == nodes
        ids = {it["name"]: it["run_id"] for it in started}
        (parents,) = [it["parent_ids"] for it in started if it["name"] == "c1"]
        assert parents[:2] == [ids["parent"], ids["child"]]


async def test_events_and_states_show_the_payloads_of_tasks(client):
    thread = await new_thread(client)
    parts = await collect(client.runs.stream(thread, "fanout", input={"items": [1, 2, 3]}, stream_mode="events"))
    expected = [["__pregel_push", index, False] for index in range(3)]
    for event in ("on_chain_start", "on_chain_end"):
        found = [it for it in data_of(parts, "events") if (it["event"], it["name"]) == (event, "worker")]
        found.sort(key=lambda it: it["metadata"]["langgraph_path"])
        assert [it["metadata"]["langgraph_path"] for it in found] == expected
        assert [it["data"]["input"] for it in found] == [{"item": 1}, {"item": 2}, {"item": 3}]
        assert found[0]["metadata"]["langgraph_triggers"] == ["__pregel_push"]
    history = await client.threads.get_history(thread)
    paths = [[task["path"] for task in state["tasks"]] for state in history]
    assert paths[:4] == [[], [["__pregel_pull", "join"]], expected, [["__pregel_pull", "plan"]]]


async def test_mode_messages_tuple_streams_chunks(client):
    parts = await stream(client, "chat", user("hello you"), stream_mode="messages-tuple")
    pairs = data_of(parts, "messages")
    assert len(pairs) >= 2 and {len(it) for it in pairs} == {2}
    assert "".join(message["content"] for message, _ in pairs) == "you said hello you"
    assert len({message["id"] for message, _ in pairs}) == 1
    assert pairs[0][0]["type"] == "AIMessageChunk" and pairs[0][1]["langgraph_node"] == "model"


async def test_mode_messages_streams_accumulated_text(client):
    parts = await stream(client, "chat", user("hello you"), stream_mode="messages")
    described = data_of(parts, "messages/metadata")[0]
    partial = [it[0] for it in data_of(parts, "messages/partial")]
    assert list(described) == [partial[0]["id"]]
    texts = [it["content"] for it in partial]
    assert len(texts) >= 2 and texts[-1] == "you said hello you"
    assert all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:]))


async def test_several_modes_at_once(client):
    parts = await stream(client, "chat", user("hi"), stream_mode=["values", "updates", "messages-tuple", "tasks"])
    assert {it.event for it in parts} == {"metadata", "values", "updates", "messages", "tasks"}
    assert data_of(parts, "values")[-1]["messages"][-1]["content"] == "you said hi"


async def test_no_event_of_an_unrequested_mode_is_sent(client):
    parts = await stream(client, "chat", user("hi"), stream_mode=["messages-tuple"])
    assert {it.event for it in parts} == {"metadata", "messages"}


async def test_events_of_subgraphs_carry_their_namespace(client):
    parts = await stream(client, "parent", {"log": []}, stream_mode=["updates", "values"], stream_subgraphs=True)
    inner = [it for it in parts if it.event.startswith("updates|")]
    assert len({it.event for it in inner}) == 1 and inner[0].event.startswith("updates|child:")
    assert [list(it.data) for it in inner] == [["c1"], ["c2"]]
    assert [list(it) for it in data_of(parts, "updates")] == [["p0"], ["child"], ["p9"]]
    values = [it for it in parts if it.event.startswith("values|")]
    assert values[-1].data == {"log": ["p0", "c1", "c2"]}


async def test_subgraphs_are_silent_unless_requested(client):
    parts = await stream(client, "parent", {"log": []}, stream_mode="updates")
    assert [list(it) for it in data_of(parts, "updates")] == [["p0"], ["child"], ["p9"]]
    assert {it.event for it in parts} == {"metadata", "updates"}


async def test_failed_run_ends_its_stream_with_an_error(client):
    parts = await stream(client, "fail", {"log": []})
    assert parts[-1].event == "error" and parts[-1].data["error"] == "ValueError"
    assert parts[-1].data["message"] == "boom"
    assert data_of(parts, "values")[-1] == {"log": ["ok"]}


async def test_resumable_stream_is_replayed_after_the_last_event(client):
    thread = await new_thread(client)
    options = {"stream_mode": "values", "stream_resumable": True}
    given = {"steps": 4, "delay": 0.05}
    parts = await collect(client.runs.stream(thread, "slow", input=given, **options))
    run = parts[0].data["run_id"]
    assert all(it.id for it in parts)
    for position in (0, 2):
        rest = await collect(client.runs.join_stream(thread, run, last_event_id=parts[position].id))
        assert [(it.id, it.data) for it in rest] == [(it.id, it.data) for it in parts[position + 1 :]]
    replayed = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert [it.data for it in replayed] == [it.data for it in parts]


@pytest.mark.fault_of_langgraph("gives events of the same millisecond the same id")
async def test_ids_of_a_resumable_stream_are_unique(client):
    options = {"stream_mode": ["values", "updates", "tasks", "debug"], "stream_resumable": True}
    parts = await stream(client, "fanout", {"items": list(range(20))}, **options)
    ids = [it.id for it in parts]
    assert all(ids) and len(set(ids)) == len(ids)


async def test_stream_has_the_headers_that_clients_rely_on(client):
    thread = await new_thread(client)
    async with httpx.AsyncClient(base_url=URL, timeout=300) as http:
        body = {"assistant_id": "tiny", "input": TINY_INPUT, "stream_mode": []}
        async with http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["cache-control"] == "no-store"
            run = response.headers["content-location"].rsplit("/", 1)[1]
            assert response.headers["content-location"] == f"/threads/{thread}/runs/{run}"
            assert response.headers["location"] == f"/threads/{thread}/runs/{run}/stream"
            text = (await response.aread()).decode()
    assert "event: values" in text and (await client.runs.get(thread, run))["status"] == "success"


@pytest.mark.fault_of_langgraph("honours one of the modes only")
async def test_joined_stream_sends_all_requested_modes(client):
    thread = await new_thread(client)
    modes = ["values", "custom"]
    given = {"steps": 20, "delay": 0.5}
    run = (await client.runs.create(thread, "slow", input=given, stream_mode=modes))["run_id"]
    parts = await collect(client.runs.join_stream(thread, run, stream_mode=modes))
    assert {"values", "custom"} <= {it.event for it in parts}


async def test_stream_of_a_thread_follows_its_runs(client):
    thread = await new_thread(client)
    seen = []

    async def read():
        async for part in await client.threads.join_stream(thread):
            if part.event == "values":
                seen.append(part.data["value"])

    reader = asyncio.create_task(read())

    # The stream starts with the events after its connection, so runs are started until one was seen completely.
    async def has_seen_a_run():
        await client.runs.wait(thread, "tiny", input=TINY_INPUT)
        return "x xa xab" in " ".join(seen)

    await until(has_seen_a_run)
    reader.cancel()


@pytest.mark.parametrize("start", ["-", "0"])
async def test_stream_of_a_thread_can_start_with_its_first_event(client, start):
    thread = await new_thread(client)
    await collect(client.runs.stream(thread, "tiny", input=TINY_INPUT, stream_resumable=True))
    values = []
    async for part in await client.threads.join_stream(thread, last_event_id=start):
        if part.event == "values":
            values.append(part.data["value"])
        if values[-1:] == ["xab"]:
            break
    assert values == ["x", "xa", "xab"]
