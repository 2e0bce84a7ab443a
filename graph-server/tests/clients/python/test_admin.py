"""Assistants and their versions, the store, copies and deletion of threads, batches and crons."""

import uuid
from datetime import datetime, timezone

import pytest
from flows import (
    TINY_INPUT,
    TINY_RESULT,
    assistant_of,
    finished_thread,
    new_thread,
    status_error,
    unique,
    until_status,
)


async def test_assistant_applies_its_context(client):
    name = unique()
    created = await client.assistants.create(
        "ctx", context={"greeting": "hey"}, metadata={"team": name}, name=name, description="greets"
    )
    assert (created["graph_id"], created["name"], created["version"]) == ("ctx", name, 1)
    assert created["description"] == "greets" and created["context"] == {"greeting": "hey"}
    result = await client.runs.wait(None, created["assistant_id"], input={"name": "bob"})
    assert result["out"] == "hey bob"
    found = await client.assistants.search(metadata={"team": name})
    assert [it["assistant_id"] for it in found] == [created["assistant_id"]]
    assert await client.assistants.count(metadata={"team": name}) == 1


async def test_runs_take_their_configuration_from_the_assistant(client):
    config = {"tags": ["nightly"], "recursion_limit": 7}
    assistant = (await client.assistants.create("ctx", config, context={"greeting": "hey"}))["assistant_id"]
    thread = await new_thread(client)
    run = await client.runs.create(thread, assistant, input={"name": "bob"})
    found = run["kwargs"]["config"]
    assert (found["tags"], found["recursion_limit"], found["configurable"]["greeting"]) == (["nightly"], 7, "hey")
    assert run["kwargs"]["context"] == {"greeting": "hey"}
    await client.runs.join(thread, run["run_id"])
    own = await client.runs.create(thread, assistant, input={"name": "bob"}, config={"tags": ["own"]})
    assert "own" in own["kwargs"]["config"]["tags"]


async def test_assistant_id_can_be_chosen_once(client):
    assistant = str(uuid.uuid4())
    await client.assistants.create("tiny", assistant_id=assistant, name="first")
    with status_error(409):
        await client.assistants.create("tiny", assistant_id=assistant)
    again = await client.assistants.create("tiny", assistant_id=assistant, if_exists="do_nothing")
    assert again["name"] == "first"


async def test_assistant_of_an_unknown_graph_is_rejected(client):
    with status_error(404, 422):
        await client.assistants.create("no-such-graph")


async def test_update_of_an_assistant_creates_a_version(client):
    assistant = (await client.assistants.create("ctx", context={"greeting": "one"}, name="n"))["assistant_id"]
    updated = await client.assistants.update(assistant, context={"greeting": "two"}, metadata={"a": 1})
    assert updated["version"] == 2 and updated["context"] == {"greeting": "two"} and updated["name"] == "n"
    assert (await client.runs.wait(None, assistant, input={"name": "bob"}))["out"] == "two bob"
    versions = await client.assistants.get_versions(assistant)
    assert [it["version"] for it in versions] == [2, 1]
    assert [it["context"]["greeting"] for it in versions] == ["two", "one"]


async def test_older_version_of_an_assistant_can_be_restored(client):
    assistant = (await client.assistants.create("tiny", name="one"))["assistant_id"]
    await client.assistants.update(assistant, name="two")
    restored = await client.assistants.set_latest(assistant, 1)
    assert restored["version"] == 1 and restored["name"] == "one"
    assert (await client.assistants.get(assistant))["name"] == "one"
    with status_error(404):
        await client.assistants.set_latest(assistant, 7)


@pytest.mark.fault_of_langgraph("restores the configuration but not the context")
async def test_older_version_restores_the_context(client):
    assistant = (await client.assistants.create("ctx", context={"greeting": "one"}))["assistant_id"]
    await client.assistants.update(assistant, context={"greeting": "two"})
    assert (await client.assistants.set_latest(assistant, 1))["context"] == {"greeting": "one"}


async def test_deleted_assistant_is_not_found(client):
    assistant = (await client.assistants.create("tiny"))["assistant_id"]
    await client.assistants.delete(assistant)
    for request in (client.assistants.get, client.assistants.delete):
        with status_error(404):
            await request(assistant)


async def test_store_returns_what_was_put(client):
    namespace = [unique(), "notes"]
    await client.store.put_item(namespace, "k", {"text": "one", "n": 1})
    found = await client.store.get_item(namespace, "k")
    assert (found["namespace"], found["key"], found["value"]) == (namespace, "k", {"text": "one", "n": 1})
    assert found["created_at"] and found["updated_at"]
    await client.store.put_item(namespace, "k", {"text": "two"})
    assert (await client.store.get_item(namespace, "k"))["value"] == {"text": "two"}
    await client.store.delete_item(namespace, "k")
    assert await client.store.get_item(namespace, "k") is None


async def test_store_rejects_reserved_namespaces_and_unknown_operators(client):
    with status_error(400):
        await client.store.put_item(["langgraph"], "k", {})
    with status_error(400):
        await client.store.search_items([unique()], filter={"n": {"$unknown": 1}})


async def test_store_is_searched_by_prefix_and_filter(client):
    root = unique()
    for key, value in (("k1", {"n": 1}), ("k2", {"n": 2}), ("k3", {"n": 3})):
        await client.store.put_item([root, "a"], key, value)
    await client.store.put_item([root, "b"], "k4", {"n": 1})

    async def keys(prefix, **options):
        return sorted(it["key"] for it in (await client.store.search_items(prefix, **options))["items"])

    assert await keys([root]) == ["k1", "k2", "k3", "k4"]
    assert await keys([root, "a"]) == ["k1", "k2", "k3"]
    assert await keys([root], filter={"n": 1}) == ["k1", "k4"]
    assert await keys([root], filter={"n": {"$gt": 1}}) == ["k2", "k3"]
    assert len(await keys([root], limit=3)) == 3 and len(await keys([root], limit=3, offset=3)) == 1


@pytest.mark.fault_of_langgraph("answers 500")
async def test_store_filter_skips_items_without_the_field(client):
    root = unique()
    await client.store.put_item([root], "with", {"n": 5})
    await client.store.put_item([root], "without", {"m": 5})
    found = await client.store.search_items([root], filter={"n": {"$gt": 1}})
    assert [it["key"] for it in found["items"]] == ["with"]


async def test_namespaces_are_listed(client):
    root = unique()
    for path in (["a"], ["a", "x"], ["b", "x"]):
        await client.store.put_item([root, *path], "k", {})

    async def namespaces(**options):
        return sorted((await client.store.list_namespaces(prefix=[root], **options))["namespaces"])

    assert await namespaces() == [[root, "a"], [root, "a", "x"], [root, "b", "x"]]
    assert await namespaces(suffix=["x"]) == [[root, "a", "x"], [root, "b", "x"]]
    assert await namespaces(max_depth=2) == [[root, "a"], [root, "b"]]


async def test_nodes_and_clients_share_the_store(client):
    name = unique()
    await client.runs.wait(None, "ctx", input={"name": name}, context={"greeting": "hi"})
    assert (await client.store.get_item(["greeted"], name))["value"] == {"greeting": "hi"}


async def test_copy_of_a_thread_is_independent(client):
    thread = await finished_thread(client)
    copy = (await client.threads.copy(thread))["thread_id"]
    assert copy != thread
    assert (await client.threads.get_state(copy))["values"] == TINY_RESULT
    assert len(await client.threads.get_history(copy)) == 4
    assert (await client.runs.wait(copy, "tiny", input={"value": "y"}))["count"] == 4
    assert (await client.threads.get_state(thread))["values"] == TINY_RESULT


async def test_pruned_threads_are_deleted(client):
    threads = [await finished_thread(client), await new_thread(client)]
    assert (await client.threads.prune(threads, strategy="delete"))["pruned_count"] == 2
    for thread in threads:
        with status_error(404):
            await client.threads.get(thread)


@pytest.mark.fault_of_langgraph("does not support this strategy in memory")
async def test_pruned_thread_keeps_its_latest_checkpoint(client):
    thread = await finished_thread(client)
    await client.threads.prune([thread], strategy="keep_latest")
    assert len(await client.threads.get_history(thread)) == 1
    assert (await client.threads.get_state(thread))["values"] == TINY_RESULT


async def test_thread_can_be_created_with_supersteps(client):
    steps = [
        {"updates": [{"values": {"value": "z"}, "as_node": "__input__"}]},
        {"updates": [{"values": {"value": "za", "log": ["a"], "count": 1}, "as_node": "a"}]},
    ]
    thread = await new_thread(client, graph_id="tiny", supersteps=steps)
    assert (await client.threads.get_state(thread))["next"] == ["b"]
    assert await client.runs.wait(thread, "tiny") == {"value": "zab", "log": ["a", "b"], "count": 2}


async def test_batch_creates_several_runs(client):
    payload = {"assistant_id": "tiny", "input": TINY_INPUT, "on_completion": "keep"}
    runs = await client.runs.create_batch([payload, payload])
    assert len({it["run_id"] for it in runs}) == 2
    for run in runs:
        await until_status(client, run["thread_id"], run["run_id"], "success")


async def test_empty_batch_is_rejected(client):
    with status_error(422):
        await client.runs.create_batch([])


@pytest.mark.fault_of_langgraph("ignores the threads of a batch")
async def test_batch_creates_runs_on_threads(client):
    thread = await new_thread(client)
    payload = {"assistant_id": "tiny", "input": TINY_INPUT, "thread_id": thread}
    [run] = await client.runs.create_batch([payload])
    assert run["thread_id"] == thread
    assert await client.runs.join(thread, run["run_id"]) == TINY_RESULT
    with status_error(404):
        await client.runs.create_batch([payload, {**payload, "thread_id": str(uuid.uuid4())}])
    assert len(await client.runs.list(thread)) == 1


async def test_crons_are_created_found_changed_and_deleted(client):
    mark = unique()
    options = {"schedule": "0 0 1 1 *", "input": TINY_INPUT, "metadata": {"mark": mark}}
    created = await client.crons.create("tiny", **options)
    assert created["schedule"] == "0 0 1 1 *" and created["assistant_id"] == assistant_of("tiny")
    assert "-01-01T00:00:00" in created["next_run_date"] and created["enabled"] is True
    found = await client.crons.search(metadata={"mark": mark})
    assert [it["cron_id"] for it in found] == [created["cron_id"]]
    assert await client.crons.count(metadata={"mark": mark}) == 1
    changed = await client.crons.update(created["cron_id"], schedule="0 1 1 1 *", enabled=False)
    assert "-01-01T01:00:00" in changed["next_run_date"] and changed["enabled"] is False
    await client.crons.delete(created["cron_id"])
    assert await client.crons.search(metadata={"mark": mark}) == []
    with status_error(404):
        await client.crons.delete(created["cron_id"])


async def test_cron_of_a_thread_honours_its_timezone(client):
    thread = await new_thread(client)
    options = {"schedule": "0 12 15 1 *", "input": TINY_INPUT, "timezone": "Europe/Berlin"}
    created = await client.crons.create_for_thread(thread, "tiny", **options)
    assert created["thread_id"] == thread and "-01-15T11:00:00" in created["next_run_date"]
    found = await client.crons.search(thread_id=thread)
    assert [it["cron_id"] for it in found] == [created["cron_id"]]
    await client.crons.delete(created["cron_id"])


async def test_end_of_a_cron_can_be_removed(client):
    end = datetime(2040, 1, 1, tzinfo=timezone.utc)
    cron = await client.crons.create("tiny", schedule="0 0 1 1 *", input=TINY_INPUT, end_time=end, metadata={"a": 1})
    try:
        kept = await client.crons.update(cron["cron_id"], metadata={"b": 2})
        assert kept["metadata"] == {"a": 1, "b": 2} and kept["end_time"].startswith("2040-01-01")
        assert (await client.crons.update(cron["cron_id"], end_time=None))["end_time"] is None
    finally:
        await client.crons.delete(cron["cron_id"])


async def test_cron_of_an_unknown_graph_is_rejected(client):
    with status_error(404):
        await client.crons.create("nope", schedule="0 0 1 1 *", input=TINY_INPUT)


async def test_malformed_schedule_is_rejected(client):
    with status_error(422):
        await client.crons.create("tiny", schedule="every now and then", input=TINY_INPUT)
