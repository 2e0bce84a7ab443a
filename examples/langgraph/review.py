"""Human review of a tool call, across processes: the first run asks and ends, the second one answers.

    python review.py            # prints the call that waits for a review
    python review.py approve    # in another process, at any later time
"""

import sys
import tempfile
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class Transfer(TypedDict):
    to: str
    amount: int


class Chat(TypedDict):
    question: str
    call: Transfer
    answer: str


def assistant(chat: Chat):
    """Stands for a model that answers with a tool call."""
    return {"call": {"to": "Ann", "amount": 40}}


@task
def transfer(call: Transfer):
    return f"Sent {call['amount']} to {call['to']}."


def tools(chat: Chat):
    decision = interrupt(chat["call"])
    if decision != "approve":
        return {"answer": "The transfer was rejected."}
    return {"answer": transfer(chat["call"]).result()}


with SqliteSaver.from_conn_string(f"{tempfile.gettempdir()}/review.db") as saver:
    graph = (
        StateGraph(Chat)
        .add_node(assistant)
        .add_node(tools)
        .add_edge(START, "assistant")
        .add_edge("assistant", "tools")
        .compile(checkpointer=saver)
    )
    config = {"configurable": {"thread_id": "ann"}}
    if len(sys.argv) > 1:
        outcome = graph.invoke(Command(resume=sys.argv[1]), config)
    else:
        outcome = graph.invoke({"question": "Send Ann 40 euros."}, config)
    if "__interrupt__" in outcome:
        question = outcome["__interrupt__"][0].value
        print(f"{question}: run again with `approve` or `reject`")
    else:
        print(outcome["answer"])
