"""Runs on threads and without: waiting, joining, listing, deleting, context, errors."""

import uuid

import httpx
import pytest
from conftest import URL
from flows import (
    TINY_INPUT,
    TINY_RESULT,
    assistant_of,
    collect,
    data_of,
    finished_thread,
    names_of,
    new_thread,
    status_error,
    until_status,
    user,
)


async def test_wait_returns_the_final_values(client):
    thread = await new_thread(client)
    assert await client.runs.wait(thread, "tiny", input=TINY_INPUT) == TINY_RESULT


async def test_wait_accepts_the_id_of_an_assistant(client):
    thread = await new_thread(client)
    assert await client.runs.wait(thread, assistant_of("tiny"), input=TINY_INPUT) == TINY_RESULT


async def test_results_keep_the_order_of_the_sends(client):
    items = list(range(12))
    result = await client.runs.wait(None, "fanout", input={"items": items})
    assert result["results"] == [it * it for it in items] and result["total"] == 506


async def test_command_of_a_node_routes_the_run(client):
    assert (await client.runs.wait(None, "route", input={"n": 4}))["path"] == ["decide", "even"]
    assert (await client.runs.wait(None, "route", input={"n": 3}))["path"] == ["decide", "odd"]


async def test_subgraph_returns_its_whole_log(client):
    result = await client.runs.wait(None, "parent", input={"log": []})
    assert result == {"log": ["p0", "p0", "c1", "c2", "p9"]}


async def test_failed_run_reports_its_error(client):
    thread = await new_thread(client)
    result = await client.runs.wait(thread, "fail", input={"log": []}, raise_error=False)
    assert result["__error__"] == {"error": "ValueError", "message": "boom"}
    with pytest.raises(Exception, match="boom"):
        await client.runs.wait(thread, "fail", input={"log": []})
    assert {it["status"] for it in await client.runs.list(thread)} == {"error"}


async def test_failed_run_keeps_the_progress_of_its_thread(client):
    thread = await finished_thread(client, "fail", input={"log": []}, raise_error=False)
    found = await client.threads.get(thread)
    assert found["status"] == "error" and found["values"] == {"log": ["ok"]}
    state = await client.threads.get_state(thread)
    assert state["next"] == ["bad"] and "boom" in state["tasks"][0]["error"]


@pytest.mark.fault_of_langgraph("answers 500 when the state is read")
@pytest.mark.parametrize(
    ("graph", "invalid", "valid"),
    [("tiny", {"log": "text"}, TINY_INPUT), ("chat", {"messages": [{"text": "hi"}]}, user("hi"))],
)
async def test_invalid_input_fails_only_its_run(client, graph, invalid, valid):
    thread = await new_thread(client)
    result = await client.runs.wait(thread, graph, input=invalid, raise_error=False)
    assert result["__error__"]["error"] == "InvalidUpdateError", result
    assert (await client.threads.get(thread))["status"] == "error"
    assert not any((await client.threads.get_state(thread))["values"].values())
    assert "__error__" not in await client.runs.wait(thread, graph, input=valid, raise_error=False)
    assert (await client.threads.get(thread))["status"] == "idle"


async def test_background_run_can_be_joined(client):
    thread = await new_thread(client)
    run = await client.runs.create(thread, "tiny", input=TINY_INPUT)
    assert run["status"] in ("pending", "running", "success") and run["thread_id"] == thread
    assert await client.runs.join(thread, run["run_id"]) == TINY_RESULT
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"


async def test_join_of_a_finished_run_returns_at_once(client):
    thread = await finished_thread(client)
    run = (await client.runs.list(thread))[0]["run_id"]
    assert await client.runs.join(thread, run) == TINY_RESULT


@pytest.mark.fault_of_langgraph("answers 200")
async def test_deleted_run_cannot_be_joined(client):
    thread = await finished_thread(client)
    run = (await client.runs.list(thread))[0]["run_id"]
    await client.runs.delete(thread, run)
    with status_error(404):
        await client.runs.join(thread, run)


async def test_stream_of_a_background_run_can_be_joined(client):
    thread = await new_thread(client)
    options = {"input": {"steps": 20, "delay": 0.5}, "stream_mode": "values"}
    run = (await client.runs.create(thread, "slow", **options))["run_id"]
    parts = await collect(client.runs.join_stream(thread, run, stream_mode="values"))
    assert data_of(parts, "values")[-1]["ticks"] == 20


async def test_run_has_its_assistant_metadata_and_strategy(client):
    thread = await new_thread(client)
    created = await client.runs.create(thread, "tiny", input=TINY_INPUT, metadata={"purpose": "case"})
    run = await client.runs.get(thread, created["run_id"])
    assert run["assistant_id"] == assistant_of("tiny") and run["metadata"]["purpose"] == "case"
    assert run["multitask_strategy"] == "enqueue" and run["created_at"] and run["updated_at"]
    assert run["kwargs"]["input"] == TINY_INPUT


async def test_run_inherits_the_metadata_of_its_thread(client):
    thread = await new_thread(client, metadata={"a": 1, "b": 1})
    run = await client.runs.create(thread, "tiny", input=TINY_INPUT, metadata={"b": 2})
    assert run["metadata"]["a"] == 1 and run["metadata"]["b"] == 2


async def test_runs_are_listed_newest_first(client):
    thread = await new_thread(client)
    ids = []
    for _ in range(3):
        ids.append((await client.runs.create(thread, "tiny", input=TINY_INPUT))["run_id"])
        await client.runs.join(thread, ids[-1])
    assert [it["run_id"] for it in await client.runs.list(thread)] == ids[::-1]
    assert [it["run_id"] for it in await client.runs.list(thread, limit=1, offset=1)] == [ids[1]]
    assert len(await client.runs.list(thread, status="success")) == 3
    assert await client.runs.list(thread, status="error") == []


async def test_deleted_run_is_not_found(client):
    thread = await finished_thread(client)
    run = (await client.runs.list(thread))[0]["run_id"]
    await client.runs.delete(thread, run)
    with status_error(404):
        await client.runs.get(thread, run)
    assert await client.runs.list(thread) == []


async def test_stateless_run_waits_and_streams(client):
    assert await client.runs.wait(None, "tiny", input=TINY_INPUT) == TINY_RESULT
    parts = await collect(client.runs.stream(None, "tiny", input=TINY_INPUT))
    assert names_of(parts) == ["metadata", "values"] and parts[-1].data == TINY_RESULT


async def test_stateless_run_in_the_background_keeps_its_thread_on_request(client):
    run = await client.runs.create(None, "tiny", input=TINY_INPUT, on_completion="keep")
    await until_status(client, run["thread_id"], run["run_id"], "success")
    assert (await client.threads.get_state(run["thread_id"]))["values"] == TINY_RESULT


async def test_context_reaches_the_nodes(client):
    result = await client.runs.wait(None, "ctx", input={"name": "bob"}, context={"greeting": "hi"})
    assert result == {"name": "bob", "out": "hi bob", "user": "-"}


async def test_configurable_values_reach_the_nodes(client):
    config = {"configurable": {"user": "ann"}}
    result = await client.runs.wait(None, "ctx", input={"name": "bob"}, config=config)
    assert result == {"name": "bob", "out": "hello bob", "user": "ann"}


async def test_configurable_values_are_part_of_the_run(client):
    thread = await new_thread(client)
    config = {"configurable": {"user": "ann", "level": 3, "list": [1]}}
    run = await client.runs.create(thread, "tiny", input=TINY_INPUT, config=config)
    values = run["kwargs"]["config"]["configurable"]
    ids = {key: run[key] for key in ("run_id", "thread_id", "assistant_id")}
    expected = {"user": "ann", "level": 3, "list": [1], "graph_id": "tiny", **ids}
    assert {key: values.get(key) for key in expected} == expected
    await client.runs.join(thread, run["run_id"])


async def test_recursion_limit_ends_a_run(client):
    config = {"recursion_limit": 3}
    options = {"input": {"steps": 50, "delay": 0}, "config": config, "raise_error": False}
    result = await client.runs.wait(None, "slow", **options)
    assert result["__error__"]["error"] == "GraphRecursionError"


async def test_missing_thread_is_created_on_request(client):
    thread = str(uuid.uuid4())
    result = await client.runs.wait(thread, "tiny", input=TINY_INPUT, if_not_exists="create")
    assert result == TINY_RESULT
    assert (await client.threads.get(thread))["values"] == TINY_RESULT


async def test_run_of_an_unknown_assistant_is_rejected(client):
    thread = await new_thread(client)
    with status_error(404, 422):
        await client.runs.wait(thread, "no-such-graph", input=TINY_INPUT)
    with status_error(404):
        await client.runs.create(thread, str(uuid.uuid4()), input=TINY_INPUT)


async def test_unknown_values_of_options_are_rejected(client):
    thread = await new_thread(client)
    with status_error(422):
        await client.runs.create(thread, "tiny", input=TINY_INPUT, stream_mode="no-such-mode")
    with status_error(422):
        await client.runs.create(thread, "tiny", input=TINY_INPUT, multitask_strategy="no-such-strategy")


async def test_unknown_run_is_not_found(client):
    thread, unknown = await new_thread(client), str(uuid.uuid4())
    for request in (client.runs.get, client.runs.delete):
        with status_error(404):
            await request(thread, unknown)


@pytest.mark.fault_of_langgraph("ignores unknown fields")
async def test_unknown_fields_are_rejected():
    body = {"assistant_id": "tiny", "input": TINY_INPUT, "no_such_field": 1}
    async with httpx.AsyncClient(base_url=URL, timeout=300) as http:
        assert (await http.post("/runs/wait", json=body)).status_code == 422
