"""Corrective retrieval: a branch grades the documents, and a bad grade leads to a better query."""

import operator
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime, get_runtime


class Question(TypedDict):
    query: str
    documents: list[str]
    searches: Annotated[int, operator.add]
    answer: str


@dataclass
class Services:
    """Stands in for a search index and a language model."""

    known: tuple[str, ...] = ("rust has no garbage collector", "tea is a drink")

    def search(self, query: str) -> list[str]:
        return [it for it in self.known if query in it]

    def is_relevant(self, documents: list[str]) -> bool:
        return len(documents) > 0


def retrieve(question: Question, runtime: Runtime[Services]):
    documents = runtime.context.search(question["query"])
    return {"documents": documents, "searches": 1}


def grade(question: Question) -> Literal["generate", "rewrite"]:
    services = get_runtime(Services).context
    if question["searches"] > 2 or services.is_relevant(question["documents"]):
        return "generate"
    return "rewrite"


def rewrite(question: Question):
    return {"query": question["query"].split(" ")[0].lower()}


def generate(question: Question):
    return {"answer": "; ".join(question["documents"])}


graph = (
    StateGraph(Question, context_schema=Services)
    .add_node(retrieve)
    .add_node(rewrite)
    .add_node(generate)
    .add_edge(START, "retrieve")
    .add_conditional_edges("retrieve", grade)
    .add_edge("rewrite", "retrieve")
    .compile()
)
question = graph.invoke({"query": "Rust memory"}, context=Services())
print(f"{question['answer']} (after {question['searches']} searches)")
