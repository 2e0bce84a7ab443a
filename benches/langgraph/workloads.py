"""The workloads of ../src/workload.rs in LangGraph.

A request is a line of JSON on standard input, {"workload": "loop", "size": 100, "steps": 100};
the answer is a line on standard output, {"seconds": 0.04}: the duration of the steps, without building the graph.
Requests for "storage" and "storage-size" go to storage.py, those for "agent" to agents.py.
"""

import gc
import json
import operator
import sys
import time
from functools import cache
from importlib.metadata import version
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

try:
    import storage
except ImportError:  # The savers are separate packages.
    storage = None
try:
    import agents
except ImportError:  # LangChain is a separate package.
    agents = None

CONFIG = {"recursion_limit": 1_000_000_000}


class Counter(TypedDict):
    count: int
    until: int


def tick(state):
    return {"count": state["count"] + 1}


@cache
def loop_graph():
    graph = StateGraph(Counter)
    graph.add_node("tick", tick)
    graph.add_edge(START, "tick")
    turn = lambda state: "tick" if state["count"] < state["until"] else END
    graph.add_conditional_edges("tick", turn, ["tick", END])
    return graph.compile()


def run_loop(_size, steps):
    seconds, result = timed(loop_graph(), {"count": 0, "until": steps})
    assert result["count"] == steps
    return seconds


class Sum(TypedDict):
    parts: int
    sum: Annotated[int, operator.add]


@cache
def fan_out_graph():
    graph = StateGraph(Sum)
    graph.add_node("add", lambda part: {"sum": part})
    scatter = lambda state: [Send("add", part) for part in range(state["parts"])]
    graph.add_conditional_edges(START, scatter, ["add"])
    return graph.compile()


def run_fan_out(_size, steps):
    seconds, result = timed(fan_out_graph(), {"parts": steps, "sum": 0})
    assert result["sum"] == steps * (steps - 1) // 2
    return seconds


@cache
def chain_graph(nodes):
    graph = StateGraph(Counter)
    for node in range(nodes):
        graph.add_node(f"node{node:06}", tick)
        graph.add_edge(f"node{node - 1:06}" if node else START, f"node{node:06}")
    return graph.compile()


def run_chain(size, _steps):
    seconds, result = timed(chain_graph(size), {"count": 0, "until": 0})
    assert result["count"] == size
    return seconds


class Log(TypedDict):
    start: int
    until: int
    lines: Annotated[list, operator.add]


class Stopwatch:
    start = stop = 0.0


def page(state):
    length = len(state["lines"])
    if length == state["start"] + 1:
        Stopwatch.start = time.perf_counter()
    if length < state["until"]:
        return "write"
    Stopwatch.stop = time.perf_counter()
    return END


@cache
def append_graph():
    graph = StateGraph(Log)
    graph.add_node("write", lambda state: {"lines": [len(state["lines"])]})
    graph.add_edge(START, "write")
    graph.add_conditional_edges("write", page, ["write", END])
    return graph.compile()


def run_append(size, steps):
    until = size + steps + 1
    _, result = timed(append_graph(), {"start": size, "until": until, "lines": [0] * size})
    assert len(result["lines"]) == until
    return Stopwatch.stop - Stopwatch.start


def timed(graph, state):
    gc.collect()
    start = time.perf_counter()
    result = graph.invoke(state, CONFIG)
    return time.perf_counter() - start, result


RUNS = {"loop": run_loop, "fan-out": run_fan_out, "chain": run_chain, "append": run_append}


def answer(value):
    print(json.dumps(value), flush=True)


def serve(request):
    match request["workload"]:
        case "storage":
            return storage.run(request)
        case "storage-size":
            return storage.size(request)
        case "agent":
            return agents.run(request)
        case workload:
            return {"seconds": RUNS[workload](request["size"], request["steps"])}


def main():
    about = {"langgraph": version("langgraph"), "python": sys.version.split()[0]}
    answer(about | {"savers": storage and storage.about(), "langchain": agents and version("langchain")})
    for line in sys.stdin:
        answer(serve(json.loads(line)))


if __name__ == "__main__":
    main()
