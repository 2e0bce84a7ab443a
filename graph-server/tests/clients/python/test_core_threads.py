"""Threads, their state and their history."""

import uuid

import pytest
from flows import TINY_INPUT, TINY_RESULT, finished_thread, new_thread, status_error, unique


async def test_new_thread_is_idle_and_empty(client):
    created = await client.threads.create(metadata={"owner": "ann"})
    found = await client.threads.get(created["thread_id"])
    assert found["thread_id"] == created["thread_id"]
    assert found["status"] == "idle" and not found["values"]
    assert found["metadata"]["owner"] == "ann" and found["created_at"] and found["updated_at"]


async def test_thread_id_can_be_chosen_once(client):
    thread = str(uuid.uuid4())
    assert (await client.threads.create(thread_id=thread))["thread_id"] == thread
    with status_error(409):
        await client.threads.create(thread_id=thread)
    again = await client.threads.create(thread_id=thread, if_exists="do_nothing")
    assert again["thread_id"] == thread


async def test_update_of_a_thread_merges_its_metadata(client):
    thread = await new_thread(client, metadata={"a": 1, "b": 1})
    await client.threads.update(thread, metadata={"b": 2, "c": 3})
    metadata = (await client.threads.get(thread))["metadata"]
    assert {key: metadata[key] for key in "abc"} == {"a": 1, "b": 2, "c": 3}


async def test_update_of_a_thread_can_return_nothing(client):
    thread = await new_thread(client, metadata={"a": 1})
    assert await client.threads.update(thread, metadata={"b": 2}, return_minimal=True) is None
    assert (await client.threads.get(thread))["metadata"] == {"a": 1, "b": 2}


async def test_deleted_thread_is_not_found(client):
    thread = await finished_thread(client)
    await client.threads.delete(thread)
    with status_error(404):
        await client.threads.get(thread)
    with status_error(404):
        await client.threads.delete(thread)


async def test_search_filters_by_metadata_and_is_paginated(client):
    mark = unique()
    threads = [await new_thread(client, metadata={"mark": mark, "number": it}) for it in range(3)]
    found = await client.threads.search(metadata={"mark": mark}, limit=2, sort_by="created_at", sort_order="asc")
    assert [it["thread_id"] for it in found] == threads[:2]
    rest = await client.threads.search(
        metadata={"mark": mark}, limit=2, offset=2, sort_by="created_at", sort_order="asc"
    )
    assert [it["thread_id"] for it in rest] == threads[2:]
    newest = await client.threads.search(metadata={"mark": mark}, sort_by="created_at", sort_order="desc")
    assert [it["thread_id"] for it in newest] == threads[::-1]


async def test_search_filters_by_status_and_ids(client):
    mark = unique()
    idle = await new_thread(client, metadata={"mark": mark})
    waiting = await new_thread(client, metadata={"mark": mark})
    await client.runs.wait(waiting, "approval", input={"topic": "cats"})
    found = await client.threads.search(metadata={"mark": mark}, status="interrupted")
    assert [it["thread_id"] for it in found] == [waiting]
    found = await client.threads.search(ids=[idle])
    assert [it["thread_id"] for it in found] == [idle]


async def test_search_returns_selected_fields_only(client):
    mark = unique()
    thread = await new_thread(client, metadata={"mark": mark})
    found = await client.threads.search(metadata={"mark": mark}, select=["thread_id", "status"])
    assert found == [{"thread_id": thread, "status": "idle"}]


async def test_search_rejects_unknown_fields_to_extract(client):
    mark = unique()
    await new_thread(client, metadata={"mark": mark})
    with status_error(422):
        await client.threads.search(metadata={"mark": mark}, extract={"draft": "value.draft"})


@pytest.mark.fault_of_langgraph("answers 500 if a thread has no values")
async def test_search_filters_by_values(client):
    mark = unique()
    await new_thread(client, metadata={"mark": mark})
    thread = await new_thread(client, metadata={"mark": mark})
    await client.runs.wait(thread, "tiny", input={"value": mark})
    found = await client.threads.search(values={"value": mark + "ab"})
    assert [it["thread_id"] for it in found] == [thread]


async def test_threads_are_counted(client):
    mark = unique()
    for _ in range(3):
        await new_thread(client, metadata={"mark": mark})
    assert await client.threads.count(metadata={"mark": mark}) == 3
    assert await client.threads.count(metadata={"mark": mark}, status="busy") == 0


async def test_state_of_an_empty_thread_is_empty(client):
    state = await client.threads.get_state(await new_thread(client))
    assert not state["values"] and state["next"] == [] and state["tasks"] == []


async def test_state_after_a_run_has_values_and_checkpoints(client):
    thread = await finished_thread(client)
    state = await client.threads.get_state(thread)
    assert state["values"] == TINY_RESULT and state["next"] == [] and state["tasks"] == []
    assert state["checkpoint"]["thread_id"] == thread and state["checkpoint"]["checkpoint_ns"] == ""
    assert state["parent_checkpoint"]["checkpoint_id"] < state["checkpoint"]["checkpoint_id"]
    assert state["metadata"]["source"] == "loop" and state["metadata"]["step"] == 2
    assert state["created_at"]
    found = await client.threads.get(thread)
    assert found["values"] == TINY_RESULT and found["status"] == "idle"
    assert found["metadata"]["graph_id"] == "tiny"


async def test_state_update_is_applied_by_the_reducers(client):
    thread = await finished_thread(client)
    updated = await client.threads.update_state(thread, {"value": "new", "log": ["edit"]})
    state = await client.threads.get_state(thread)
    assert state["values"] == {"value": "new", "log": ["a", "b", "edit"], "count": 2}
    assert state["checkpoint"]["checkpoint_id"] == updated["checkpoint"]["checkpoint_id"]
    assert state["metadata"]["source"] == "update"


async def test_state_update_as_a_node_schedules_its_successor(client):
    thread = await finished_thread(client)
    await client.threads.update_state(thread, {"value": "new"}, as_node="a")
    state = await client.threads.get_state(thread)
    assert state["next"] == ["b"] and [it["name"] for it in state["tasks"]] == ["b"]
    assert (await client.runs.wait(thread, "tiny"))["value"] == "newb"


async def test_state_can_be_read_at_a_checkpoint(client):
    thread = await finished_thread(client)
    history = await client.threads.get_history(thread)
    before_b = next(it for it in history if it["next"] == ["b"])
    by_id = await client.threads.get_state(thread, checkpoint_id=before_b["checkpoint"]["checkpoint_id"])
    by_checkpoint = await client.threads.get_state(thread, checkpoint=before_b["checkpoint"])
    for state in (by_id, by_checkpoint):
        assert state["values"] == {"value": "xa", "log": ["a"], "count": 1} and state["next"] == ["b"]


async def test_history_starts_with_the_newest_checkpoint(client):
    history = await client.threads.get_history(await finished_thread(client))
    assert [it["next"] for it in history] == [[], ["b"], ["a"], ["__start__"]]
    assert [it["metadata"]["step"] for it in history] == [2, 1, 0, -1]
    assert [it["metadata"]["source"] for it in history] == ["loop", "loop", "loop", "input"]
    for newer, older in zip(history, history[1:]):
        assert newer["parent_checkpoint"]["checkpoint_id"] == older["checkpoint"]["checkpoint_id"]


async def test_history_is_limited(client):
    history = await client.threads.get_history(await finished_thread(client), limit=2)
    assert [it["metadata"]["step"] for it in history] == [2, 1]


@pytest.mark.fault_of_langgraph("answers 500")
async def test_history_before_a_checkpoint(client):
    thread = await finished_thread(client)
    history = await client.threads.get_history(thread)
    older = await client.threads.get_history(thread, before=history[1]["checkpoint"])
    assert [it["metadata"]["step"] for it in older] == [0, -1]


async def test_history_filters_by_metadata(client):
    thread = await finished_thread(client)
    history = await client.threads.get_history(thread, metadata={"source": "input"})
    assert [it["metadata"]["step"] for it in history] == [-1]


async def test_messages_of_a_thread_accumulate(client):
    thread = await new_thread(client)
    for text in ("one", "two"):
        await client.runs.wait(thread, "chat", input={"messages": [{"role": "user", "content": text}]})
    messages = (await client.threads.get_state(thread))["values"]["messages"]
    assert [(it["type"], it["content"]) for it in messages] == [
        ("human", "one"),
        ("ai", "you said one"),
        ("human", "two"),
        ("ai", "you said two"),
    ]
    assert len({it["id"] for it in messages}) == 4


async def test_unknown_thread_is_not_found(client):
    unknown = str(uuid.uuid4())
    for request in (client.threads.get, client.threads.get_state, client.threads.get_history):
        with status_error(404):
            await request(unknown)
    with status_error(404):
        await client.runs.wait(unknown, "tiny", input=TINY_INPUT)


async def test_malformed_thread_id_is_rejected(client):
    with status_error(422):
        await client.threads.get("not-a-uuid")
