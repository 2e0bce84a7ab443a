"""The thread-centric protocol: commands and event streams."""

import asyncio
from contextlib import asynccontextmanager, suppress

import httpx
import pytest
from conftest import URL
from flows import TINY_INPUT, TINY_RESULT, new_thread, until, user


@asynccontextmanager
async def recorded(thread):
    """Records the events of all channels while the block runs."""
    events = []

    async def read():
        async for event in thread.events:
            events.append(event)

    task = asyncio.create_task(read())
    try:
        yield events
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def lifecycle(events, namespace=()):
    """Returns the lifecycle events of one namespace."""
    found = [it["params"] for it in events if it["method"] == "lifecycle"]
    return [it["data"]["event"] for it in found if tuple(it["namespace"]) == tuple(namespace)]


async def until_event(events, method, name):
    """Waits until an event of this method and name was recorded."""

    async def probe():
        return any(it["method"] == method and it["params"]["data"].get("event") == name for it in events)

    await until(probe)


async def test_run_is_started_and_its_output_awaited(client):
    async with client.threads.stream(assistant_id="tiny") as thread:
        assert (await thread.run.start(input=TINY_INPUT))["run_id"]
        assert await thread.output == TINY_RESULT
    assert (await client.threads.get_state(thread.thread_id))["values"] == TINY_RESULT


async def test_events_are_numbered_and_framed_by_the_lifecycle(client):
    async with client.threads.stream(assistant_id="tiny") as thread:
        await thread.run.start(input=TINY_INPUT)
        async with recorded(thread) as events:
            await until_event(events, "lifecycle", "completed")
    assert lifecycle(events) == ["running", "completed"]
    numbers = [it["seq"] for it in events]
    assert numbers == sorted(set(numbers)) and len({it["event_id"] for it in events}) == len(events)
    values = [it["params"]["data"] for it in events if it["method"] == "values"]
    assert [it["value"] for it in values] == ["x", "xa", "xab"]
    assert all(it["type"] == "event" and it["params"]["timestamp"] for it in events)


async def test_values_are_iterated(client):
    async with client.threads.stream(assistant_id="tiny") as thread:
        await thread.run.start(input=TINY_INPUT)
        values = [it async for it in thread.values if it]
    assert values[-1] == TINY_RESULT and {"value": "xa", "log": ["a"], "count": 1} in values


async def test_messages_arrive_as_content_block_deltas(client):
    async with client.threads.stream(assistant_id="chat") as thread:
        await thread.run.start(input=user("hello you"))
        chunks, readers = [], []

        async def read(message):
            async for chunk in message.text:
                chunks.append(chunk)

        async for message in thread.messages:
            readers.append(asyncio.create_task(read(message)))
        await asyncio.gather(*readers)
    assert len(readers) == 1 and len(chunks) >= 2 and "".join(chunks) == "you said hello you"


async def test_interrupt_is_answered(client):
    async with client.threads.stream(assistant_id="approval") as thread:
        await thread.run.start(input={"topic": "cats"})
        async with recorded(thread) as events:

            async def is_interrupted():
                return thread.interrupted and thread.interrupts

            await until(is_interrupted)
            await until_event(events, "lifecycle", "interrupted")
            await thread.run.respond("yes")
            result = await thread.output
            await until_event(events, "lifecycle", "completed")
    assert result["decision"] == "yes" and result["log"] == ["draft", "review", "publish"]
    requests = [it["params"]["data"] for it in events if it["method"] == "input.requested"]
    assert [it["payload"]["question"] for it in requests] == ["approve?"]
    assert requests[0]["interrupt_id"]


async def test_subgraphs_are_discovered(client):
    async with client.threads.stream(assistant_id="parent") as thread:
        await thread.run.start(input={"log": []})
        found = [it async for it in thread.subgraphs]
    assert [it.graph_name for it in found] == ["child"]
    assert found[0].path[0].startswith("child:") and found[0].status == "completed"


async def test_failed_run_fails_its_output(client):
    async with client.threads.stream(assistant_id="fail") as thread:
        await thread.run.start(input={"log": []})
        async with recorded(thread) as events:
            with pytest.raises(RuntimeError, match="boom"):
                await thread.output
            await until_event(events, "lifecycle", "failed")
    assert lifecycle(events) == ["running", "failed"]


async def test_events_are_replayed_since_a_number(client):
    async with client.threads.stream(assistant_id="tiny") as thread:
        await thread.run.start(input=TINY_INPUT)
        async with recorded(thread) as events:
            await until_event(events, "lifecycle", "completed")
    async with client.threads.stream(thread.thread_id, assistant_id="tiny") as again:
        async with recorded(again) as replayed:
            await until_event(replayed, "lifecycle", "completed")
    assert [it["params"]["data"] for it in replayed] == [it["params"]["data"] for it in events]


async def test_unknown_command_is_rejected(client):
    thread = await new_thread(client)
    async with httpx.AsyncClient(base_url=URL, timeout=300) as http:
        body = {"id": 7, "method": "no.such.command", "params": {}}
        answer = (await http.post(f"/threads/{thread}/commands", json=body)).json()
    assert (answer["type"], answer["id"], answer["error"]) == ("error", 7, "unknown_command")


async def test_websocket_carries_commands_and_events(client):
    async with client.threads.stream(assistant_id="tiny", transport="websocket") as thread:
        await thread.run.start(input=TINY_INPUT)
        assert await thread.output == TINY_RESULT
