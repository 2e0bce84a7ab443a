"""The agent of ../src/agents.rs in LangChain."""

import gc
import time
from functools import cache

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool


@tool
def double(number: int) -> int:
    """Doubles a number."""
    return number * 2


class InstantModel(BaseChatModel):
    """Calls a tool until the conversation contains enough answers."""

    calls: int

    @property
    def _llm_type(self):
        return "instant"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        number = len(messages) // 2
        message = AIMessage("done")
        if number < self.calls:
            call = {"name": "double", "args": {"number": number}, "id": f"call-{number}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


@cache
def agent(calls):
    return create_agent(InstantModel(calls=calls), tools=[double])


def run(request):
    calls = request["size"]
    graph = agent(calls)
    gc.collect()
    start = time.perf_counter()
    result = graph.invoke({"messages": [("user", "go")]})
    seconds = time.perf_counter() - start
    assert len(result["messages"]) == 2 * calls + 2
    return {"seconds": seconds}
