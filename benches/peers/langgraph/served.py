"""The graph of the server in workloads.py: one node that increments a counter."""

from typing import TypedDict

from langgraph.graph import START, StateGraph


class Counter(TypedDict):
    count: int


async def tick(state: Counter) -> Counter:
    return {"count": state["count"] + 1}


graph = StateGraph(Counter).add_node("tick", tick).add_edge(START, "tick").compile()
