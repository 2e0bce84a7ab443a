"""The agents of workloads.py: a fake model and a tool, both without any latency."""

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent


@tool("search")
def search_long(query: str) -> str:
    """Searches."""
    return f"result for query: {query}" * 10


@tool("search")
def search_short(query: str) -> str:
    """Searches."""
    return f"result for query: {query}"


class FakeModel(BaseChatModel):
    """Calls the tool once per turn until it has called it often enough."""

    calls: int
    long: bool

    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        turn = len(messages) // 2
        message = AIMessage("answer" * (100 if self.long else 1))
        if turn < self.calls:
            query = f"{turn:036}" * (100 if self.long else 1)
            call = {"name": "search", "args": {"query": query}, "id": str(turn)}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return self._generate(messages)


def react_agent(calls, saver):
    return create_react_agent(FakeModel(calls=calls, long=True), [search_long], checkpointer=saver)


def agent_loop(calls):
    return create_agent(FakeModel(calls=calls, long=False), [search_short])
