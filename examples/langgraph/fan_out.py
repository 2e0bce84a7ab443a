"""Map-reduce: one task per section, then a node that joins the results."""

import operator
from dataclasses import dataclass
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send


class Essay(TypedDict):
    topic: str
    parts: Annotated[list[str], operator.add]
    text: str


@dataclass
class Writer:
    style: str


class Section(TypedDict):
    title: str


def plan(essay: Essay):
    titles = [f"{it} {essay['topic']}" for it in ("why", "how", "what next")]
    return [Send("write", {"title": title}) for title in titles]


def write(section: Section, runtime: Runtime[Writer]):
    return {"parts": [f"{section['title']} ({runtime.context.style})"]}


def bind(essay: Essay):
    return {"text": "; ".join(essay["parts"])}


graph = (
    StateGraph(Essay, context_schema=Writer)
    .add_node(write)
    .add_node(bind)
    .add_conditional_edges(START, plan, ["write"])
    .add_edge("write", "bind")
    .compile()
)
essay = graph.invoke({"topic": "rust"}, context=Writer(style="plain words"))
print(essay["text"])
