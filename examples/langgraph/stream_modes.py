"""All stream modes: one run, and the events that each mode adds to its stream."""

from typing import TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph


class Joke(TypedDict):
    topic: str
    joke: str


def refine(joke: Joke):
    return {"topic": f"{joke['topic']} and cats"}


def tell(joke: Joke):
    write = get_stream_writer()
    write({"progress": 0.5})
    answer = AIMessage(f"Why do {joke['topic']} …")
    model = GenericFakeChatModel(messages=iter([answer]))
    return {"joke": model.invoke("Tell a joke.").content}


graph = (
    StateGraph(Joke)
    .add_node(refine)
    .add_node(tell)
    .add_edge(START, "refine")
    .add_edge("refine", "tell")
    .compile(checkpointer=InMemorySaver())
)
config = {"configurable": {"thread_id": "joke"}}
modes = ["values", "updates", "custom", "messages", "tasks", "checkpoints"]
joke = ""
for mode, event in graph.stream({"topic": "dogs"}, config, stream_mode=modes):
    node = "-"
    if mode == "messages":
        chunk, metadata = event
        node, text = metadata["langgraph_node"], chunk.content
    elif mode == "tasks":
        node, text = event["name"], "finished" if "result" in event else "started"
    elif mode == "updates":
        node, text = next(iter(event.items()))
    elif mode == "checkpoints":
        text = f"stored; next: {event['next']}"
    elif mode == "values":
        text, joke = event, event.get("joke", "")
    else:
        text = event
    print(f"{mode} {node}: {text}")
print(joke)
