"""Sends messages to the graph `chat` of a server with the official A2A client."""

import asyncio
import sys
import uuid

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import CancelTaskRequest, GetTaskRequest, Message, Part, Role, SendMessageRequest, TaskState
from a2a.utils.errors import TaskNotCancelableError

CARD = ".well-known/agent-card.json?assistant_id=chat"


def request(text, context=None):
    """Returns the request for one message of the user."""
    parts = [Part(text=text)]
    message = Message(role=Role.ROLE_USER, parts=parts, message_id=str(uuid.uuid4()), context_id=context)
    return SendMessageRequest(message=message)


def connect(url, http, streaming):
    """Returns a client of the graph. The default timeout of its HTTP client is too short for a busy machine."""
    return create_client(url, ClientConfig(streaming=streaming, httpx_client=http), relative_card_path=CARD)


def text_of(artifact):
    return "".join(part.text for part in artifact.parts)


async def main(url):
    async with httpx.AsyncClient(timeout=300) as http:
        await check(url, http)


async def check(url, http):
    async with await connect(url, http, streaming=False) as client:
        [answer] = [event async for event in client.send_message(request("hi"))]
        task = answer.task
        assert task.status.state == TaskState.TASK_STATE_COMPLETED, answer
        assert text_of(task.artifacts[0]) == "you said hi", answer
        assert await client.get_task(GetTaskRequest(id=task.id)), "a task can be read"
        try:
            await client.cancel_task(CancelTaskRequest(id=task.id))
            raise AssertionError("a task that has ended was cancelled")
        except TaskNotCancelableError:
            pass
    async with await connect(url, http, streaming=True) as client:
        events = [event async for event in client.send_message(request("hi", task.context_id))]
        kinds = [event.WhichOneof("payload") for event in events]
        assert kinds[0] == "task" and kinds[-2:] == ["artifact_update", "status_update"], kinds
        assert events[0].task.context_id == task.context_id, "the conversation continues"
        states = [event.status_update.status.state for event in events if event.HasField("status_update")]
        assert TaskState.TASK_STATE_WORKING in states, states
        assert states[-1] == TaskState.TASK_STATE_COMPLETED, states
        assert text_of(events[-2].artifact_update.artifact) == "you said hi", events


asyncio.run(main(sys.argv[1]))
