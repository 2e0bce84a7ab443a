"""Interrupts, breakpoints, concurrent runs of one thread, cancellation and time travel."""

import asyncio

import pytest
from flows import (
    TINY_INPUT,
    TINY_RESULT,
    collect,
    data_of,
    finished_thread,
    new_thread,
    started_slow_run,
    status_error,
    until,
    until_status,
)

QUESTION = {"question": "approve?", "draft": "draft about cats"}


async def waiting_thread(client):
    """Runs the graph `approval` until it waits for an answer."""
    return await finished_thread(client, "approval", input={"topic": "cats"})


async def test_interrupt_is_visible_in_the_stream_the_state_and_the_thread(client):
    thread = await new_thread(client)
    modes = ["updates", "values"]
    parts = await collect(client.runs.stream(thread, "approval", input={"topic": "cats"}, stream_mode=modes))
    in_updates = [it["__interrupt__"] for it in data_of(parts, "updates") if "__interrupt__" in it]
    in_values = data_of(parts, "values")[-1]["__interrupt__"]
    state = await client.threads.get_state(thread)
    task = state["tasks"][0]
    found = await client.threads.get(thread)
    places = (in_updates[0], in_values, task["interrupts"], found["interrupts"][task["id"]])
    assert [it[0]["value"] for it in places] == [QUESTION] * 4
    assert len({it[0]["id"] for it in places}) == 1
    assert state["next"] == ["review"] and found["status"] == "interrupted"
    run = (await client.runs.list(thread))[0]
    assert run["status"] == "success"


async def test_resume_with_a_value(client):
    thread = await waiting_thread(client)
    result = await client.runs.wait(thread, "approval", command={"resume": {"approved": True}})
    assert result["decision"] == {"approved": True} and result["log"] == ["draft", "review", "publish"]
    found = await client.threads.get(thread)
    assert found["status"] == "idle" and found["interrupts"] == {}


async def test_resume_by_the_id_of_the_interrupt(client):
    thread = await waiting_thread(client)
    interrupt = (await client.threads.get_state(thread))["tasks"][0]["interrupts"][0]
    result = await client.runs.wait(thread, "approval", command={"resume": {interrupt["id"]: "yes"}})
    assert result["decision"] == "yes" and "__interrupt__" not in result


async def test_command_without_content_asks_again(client):
    thread = await waiting_thread(client)
    result = await client.runs.wait(thread, "approval", command={"resume": None})
    assert result["__interrupt__"][0]["value"] == QUESTION


async def test_answer_to_an_unknown_interrupt_leaves_the_thread_waiting(client):
    thread = await waiting_thread(client)
    await client.runs.wait(thread, "approval", command={"resume": {"0" * 32: "yes"}}, raise_error=False)
    found = await client.threads.get(thread)
    assert found["status"] == "interrupted" and len(found["interrupts"]) == 1
    assert (await client.runs.wait(thread, "approval", command={"resume": "yes"}))["decision"] == "yes"


async def test_command_updates_the_state_and_goes_to_a_node(client):
    thread = await finished_thread(client)
    result = await client.runs.wait(thread, "tiny", command={"update": {"value": "new"}, "goto": "b"})
    assert result == {"value": "newb", "log": ["a", "b", "b"], "count": 3}


async def test_breakpoint_before_a_node(client):
    thread = await new_thread(client)
    options = {"input": TINY_INPUT, "stream_mode": "updates", "interrupt_before": ["b"]}
    parts = await collect(client.runs.stream(thread, "tiny", **options))
    assert [list(it) for it in data_of(parts, "updates")] == [["a"], ["__interrupt__"]]
    assert data_of(parts, "updates")[-1] == {"__interrupt__": []}
    assert (await client.threads.get_state(thread))["next"] == ["b"]
    assert (await client.threads.get(thread))["status"] == "interrupted"
    assert await client.runs.wait(thread, "tiny") == TINY_RESULT


async def test_breakpoint_after_every_node(client):
    thread = await new_thread(client)
    first = await client.runs.wait(thread, "tiny", input=TINY_INPUT, interrupt_after="*")
    assert first["value"] == "xa" and (await client.threads.get_state(thread))["next"] == ["b"]
    assert (await client.runs.wait(thread, "tiny", interrupt_after=["a"]))["value"] == "xab"


async def test_breakpoint_after_a_node_reports_the_checkpoint_of_its_step(client):
    options = {"input": TINY_INPUT, "stream_mode": "checkpoints", "interrupt_after": ["a"]}
    parts = await collect(client.runs.stream(await new_thread(client), "tiny", **options))
    checkpoints = data_of(parts, "checkpoints")
    assert [it["next"] for it in checkpoints] == [["__start__"], ["a"], ["b"]]
    assert checkpoints[-1]["values"]["value"] == "xa"


async def test_strategy_reject_rejects_a_second_run(client):
    thread = await new_thread(client)
    run = await started_slow_run(client, thread)
    with status_error(409):
        await client.runs.create(thread, "tiny", input=TINY_INPUT, multitask_strategy="reject")
    await client.runs.cancel(thread, run, wait=True)


async def test_strategy_enqueue_executes_runs_in_order(client):
    thread = await new_thread(client)
    first = await client.runs.create(thread, "slow", input={"steps": 2, "delay": 10})
    more = [
        await client.runs.create(thread, "tiny", input={"value": str(it)}, multitask_strategy="enqueue")
        for it in range(2)
    ]
    assert (await client.runs.get(thread, more[1]["run_id"]))["status"] == "pending"
    last = await client.runs.join(thread, more[1]["run_id"])
    assert last["value"] == "1ab" and last["log"] == ["a", "b", "a", "b"]
    runs = [await client.runs.get(thread, it["run_id"]) for it in (first, *more)]
    assert {it["status"] for it in runs} == {"success"}


async def test_strategy_interrupt_keeps_the_progress_of_the_first_run(client):
    thread = await new_thread(client)
    first = await started_slow_run(client, thread)
    options = {"input": {"steps": 1, "delay": 0}, "multitask_strategy": "interrupt"}
    result = await client.runs.wait(thread, "slow", **options)
    assert result["ticks"] >= 2
    assert (await client.runs.get(thread, first))["status"] == "interrupted"


async def test_strategy_rollback_deletes_the_first_run(client):
    thread = await new_thread(client)
    first = await started_slow_run(client, thread)
    options = {"input": {"steps": 1, "delay": 0}, "multitask_strategy": "rollback"}
    assert (await client.runs.wait(thread, "slow", **options))["ticks"] == 1
    with status_error(404):
        await client.runs.get(thread, first)


async def test_cancel_with_wait_ends_the_run(client):
    thread = await new_thread(client)
    run = await started_slow_run(client, thread)
    await client.runs.cancel(thread, run, wait=True)
    assert (await client.runs.get(thread, run))["status"] == "interrupted"
    assert (await client.threads.get_state(thread))["values"]["ticks"] >= 1
    with status_error(404, 409):
        await client.runs.cancel(thread, run, wait=True)


async def test_cancel_without_wait_ends_the_run_later(client):
    thread = await new_thread(client)
    run = await started_slow_run(client, thread)
    await client.runs.cancel(thread, run, wait=False)
    await until_status(client, thread, run, "interrupted")


async def test_cancel_with_rollback_deletes_the_run_and_its_checkpoints(client):
    thread = await finished_thread(client)
    before = await client.threads.get_history(thread)
    run = await started_slow_run(client, thread)
    await client.runs.cancel(thread, run, wait=True, action="rollback")
    with status_error(404):
        await client.runs.get(thread, run)

    async def is_rolled_back():
        ids = [it["checkpoint"]["checkpoint_id"] for it in await client.threads.get_history(thread)]
        return ids == [it["checkpoint"]["checkpoint_id"] for it in before]

    await until(is_rolled_back)


async def test_pending_run_can_be_cancelled(client):
    thread = await new_thread(client)
    first = await started_slow_run(client, thread)
    second = (await client.runs.create(thread, "tiny", input=TINY_INPUT))["run_id"]
    await client.runs.cancel(thread, second, wait=False)
    await until_status(client, thread, second, "interrupted")
    await client.runs.cancel(thread, first, wait=True)
    assert "value" not in (await client.threads.get_state(thread))["values"]


async def test_several_runs_are_cancelled_at_once(client):
    threads = [await new_thread(client) for _ in range(2)]
    runs = [await started_slow_run(client, it) for it in threads]
    for thread, run in zip(threads, runs):
        await client.runs.cancel_many(thread_id=thread, run_ids=[run])
    for thread, run in zip(threads, runs):
        await until_status(client, thread, run, "interrupted")


async def test_run_can_start_from_an_older_checkpoint(client):
    thread = await finished_thread(client)
    history = await client.threads.get_history(thread)
    before_b = next(it for it in history if it["next"] == ["b"])
    modes = {"stream_mode": "updates", "checkpoint": before_b["checkpoint"]}
    parts = await collect(client.runs.stream(thread, "tiny", input=None, **modes))
    assert [list(it) for it in data_of(parts, "updates")] == [["b"]]
    state = await client.threads.get_state(thread)
    assert state["values"] == TINY_RESULT
    assert len(await client.threads.get_history(thread)) > len(history)


async def test_edited_checkpoint_forks_the_thread(client):
    thread = await finished_thread(client)
    history = await client.threads.get_history(thread)
    before_b = next(it for it in history if it["next"] == ["b"])
    checkpoint_id = before_b["checkpoint"]["checkpoint_id"]
    fork = await client.threads.update_state(thread, {"value": "fork"}, checkpoint_id=checkpoint_id)
    result = await client.runs.wait(thread, "tiny", checkpoint_id=fork["checkpoint"]["checkpoint_id"])
    assert result["value"] == "forkb"
    forked = await client.threads.get_state(thread, checkpoint_id=fork["checkpoint"]["checkpoint_id"])
    assert forked["parent_checkpoint"]["checkpoint_id"] == checkpoint_id
    old = await client.threads.get_state(thread, checkpoint_id=history[0]["checkpoint"]["checkpoint_id"])
    assert old["values"] == TINY_RESULT


async def test_state_of_a_busy_thread_cannot_be_edited(client):
    thread = await new_thread(client)
    run = await started_slow_run(client, thread)
    assert (await client.threads.get(thread))["status"] == "busy"
    with status_error(409):
        await client.threads.update_state(thread, {"ticks": 1})
    await client.runs.cancel(thread, run, wait=True)


async def test_run_starts_after_its_delay(client):
    thread = await new_thread(client)
    run = await client.runs.create(thread, "tiny", input=TINY_INPUT, after_seconds=20)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "pending"
    await until_status(client, thread, run["run_id"], "success")


@pytest.mark.parametrize(
    ("on_disconnect", "steps", "status"), [("cancel", 1000, "interrupted"), ("continue", 20, "success")]
)
async def test_disconnect_cancels_the_run_or_not(client, on_disconnect, steps, status):
    thread = await new_thread(client)
    options = {"stream_mode": "custom", "on_disconnect": on_disconnect}
    stream = client.runs.stream(thread, "slow", input={"steps": steps, "delay": 0.1}, **options)
    run = None
    async for part in stream:
        run = part.data.get("run_id", run)
        if part.event == "custom":
            break
    await stream.aclose()
    assert (await until_status(client, thread, run, "interrupted", "success"))["status"] == status


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_durability_decides_which_checkpoints_are_kept(client, durability):
    thread = await new_thread(client)
    result = await client.runs.wait(thread, "tiny", input=TINY_INPUT, durability=durability)
    assert result == TINY_RESULT
    history = await client.threads.get_history(thread)
    assert len(history) == (1 if durability == "exit" else 4)
    assert history[0]["values"] == TINY_RESULT


async def test_concurrent_runs_of_several_threads_are_independent(client):
    threads = [await new_thread(client) for _ in range(8)]
    waits = [client.runs.wait(it, "tiny", input={"value": str(n)}) for n, it in enumerate(threads)]
    assert [it["value"] for it in await asyncio.gather(*waits)] == [f"{n}ab" for n in range(8)]


async def test_pending_run_is_deleted_by_rollback(client):
    thread = await new_thread(client)
    first = await started_slow_run(client, thread)
    second = (await client.runs.create(thread, "tiny", input=TINY_INPUT))["run_id"]
    await client.runs.cancel(thread, second, action="rollback")

    async def is_deleted():
        return second not in [it["run_id"] for it in await client.runs.list(thread)]

    await until(is_deleted)
    await client.runs.cancel(thread, first, wait=True)
