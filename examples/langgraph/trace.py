"""A test that compares the trace of a run with a stored snapshot.

The run contains a fan-out, a retry, an external call and a subgraph.
"""

import json
import operator
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.config import get_stream_writer
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy, Send


class Essay(TypedDict):
    topic: str
    drafts: Annotated[list[str], operator.add]
    title: str


attempts = 0


def plan(essay: Essay):
    global attempts
    attempts += 1
    get_stream_writer()("planning")
    if attempts == 1:
        raise RuntimeError("no idea yet")
    return {}


def fan_out(essay: Essay):
    return [Send("write", part) for part in (1, 2)]


@task
def look_up(part: int) -> str:
    return f"fact {part}"


def write(part: int):
    return {"drafts": [look_up(part).result()]}


def name(essay: Essay):
    return {"title": "On tea"}


class Title(TypedDict):
    title: str


naming = StateGraph(Title).add_node(name).add_edge(START, "name").compile()
retry = RetryPolicy(max_attempts=2, retry_on=RuntimeError, initial_interval=0.0)
graph = (
    StateGraph(Essay)
    .add_node(plan, retry_policy=retry)
    .add_node(write)
    .add_node("naming", naming)
    .add_edge(START, "plan")
    .add_conditional_edges("plan", fan_out, ["write"])
    .add_edge("write", "naming")
    .compile()
)
trace = []
modes = ["tasks", "custom", "values"]
for namespace, mode, event in graph.stream({"topic": "tea"}, stream_mode=modes, subgraphs=True):
    # Ids differ from run to run.
    path = [it.split(":")[0] for it in namespace]
    if mode == "tasks":
        event = {key: value for key, value in event.items() if key != "id"}
    trace.append([path, mode, event])
trace = json.dumps(trace, indent=1, default=str)

snapshot = Path(__file__).with_suffix(".snapshot.json")
if not snapshot.exists():
    snapshot.write_text(trace)
assert snapshot.read_text() == trace, "the trace differs from the snapshot"
print(trace)
