"""Time travel: find the checkpoint before a node, run it again with another value, and keep both branches."""

from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph


class Joke(TypedDict):
    topic: str
    joke: str


def choose(joke: Joke):
    return {"topic": "compilers"}


def tell(joke: Joke):
    return {"joke": f"Two {joke['topic']} walk into a bar."}


graph = (
    StateGraph(Joke)
    .add_node(choose)
    .add_node(tell)
    .add_edge(START, "choose")
    .add_edge("choose", "tell")
    .compile(checkpointer=InMemorySaver())
)
config = {"configurable": {"thread_id": "t"}}
print(graph.invoke({}, config)["joke"])

before_tell = next(it for it in graph.get_state_history(config) if it.next == ("tell",))
edited = graph.update_state(before_tell.config, {"topic": "borrow checkers"})
print(graph.invoke(None, edited)["joke"])
print(f"{len(list(graph.get_state_history(config)))} checkpoints")
