"""A chatbot that calls a tool and remembers the conversation."""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langgraph.checkpoint.memory import InMemorySaver


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def weather(city: str) -> str:
    """Returns the weather in a city."""
    return f"It rains in {city}."


call = ToolCall(name="weather", args={"city": "Rome"}, id="call-1")
replies = [AIMessage("", tool_calls=[call]), AIMessage("Take an umbrella."), AIMessage("About Rome.")]
model = ScriptedModel(messages=iter(replies))
agent = create_agent(model, tools=[weather], checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "ann"}}
agent.invoke({"messages": [("user", "How is the weather in Rome?")]}, config)
answer = agent.invoke({"messages": [("user", "Which city did I ask about?")]}, config)
for message in answer["messages"]:
    message.pretty_print()
