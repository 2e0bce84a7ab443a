"""Common mistakes, and the errors that explain them."""

import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt


class Chat(TypedDict):
    name: str
    lines: Annotated[list[str], operator.add]
    mood: str


def greet(chat: Chat):
    if not chat.get("name"):
        raise ValueError("the name is empty")
    return {"lines": [f"Hello {chat['name']}!"], "mood": "calm"}


def cheer(chat: Chat):
    return {"mood": "happy"}


def confirm(chat: Chat):
    """Catches the exception with which `interrupt` leaves the node."""
    try:
        happy = interrupt("Happy?")
    except Exception:
        happy = False
    return {"mood": "happy" if happy else "calm"}


def show(call):
    try:
        print(call())
    except Exception as error:
        print(f"{type(error).__name__}: {error}\n")


def greeter():
    return StateGraph(Chat).add_node(greet).add_edge(START, "greet")


ann = {"name": "Ann"}

# A name that no node has, and an edge that is missing.
show(lambda: greeter().add_edge("greet", "cheeer").add_node(cheer).compile())
show(lambda: StateGraph(Chat).add_node(greet).compile())

# Two nodes write one field in the same step.
both = greeter().add_node(cheer).add_edge(START, "cheer").compile()
show(lambda: both.invoke(ann))

# A node fails; a loop does not end; there is no checkpointer.
graph = greeter().compile()
show(lambda: graph.invoke({}))
endless = greeter().add_edge("greet", "greet").compile()
show(lambda: endless.invoke(ann, {"recursion_limit": 5}))
config = {"configurable": {"thread_id": "ann"}}
show(lambda: graph.get_state(config))

# A node raises an interrupt, but the graph has no checkpointer.
silent = StateGraph(Chat).add_node(confirm).add_edge(START, "confirm").compile()
show(lambda: silent.invoke(ann))

# A whole state as the input of an existing thread, and a stop at a node that does not exist.
thread = greeter().compile(checkpointer=InMemorySaver())
thread.invoke(ann, config)
show(lambda: thread.invoke({"name": "", "lines": [], "mood": ""}, config))
show(lambda: thread.invoke(None, config, interrupt_before=["gret"]))
