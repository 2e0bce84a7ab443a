"""A supervisor that hands a question to another agent."""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langgraph_supervisor import create_supervisor


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


call = ToolCall(name="add", args={"a": 2, "b": 3}, id="call-2")
math_model = ScriptedModel(
    messages=iter([AIMessage("", tool_calls=[call]), AIMessage("The sum is 5.")])
)
math = create_agent(math_model, tools=[add], system_prompt="You calculate.", name="math")

handoff = ToolCall(name="transfer_to_math", args={}, id="call-1")
model = ScriptedModel(
    messages=iter([AIMessage("", tool_calls=[handoff]), AIMessage("2 + 3 = 5")])
)
team = create_supervisor([math], model=model, prompt="You lead a team.").compile()

outcome = team.invoke({"messages": [("user", "What is 2 + 3?")]})
for message in outcome["messages"]:
    message.pretty_print()
