"""The workloads of ../src/storage.rs in LangGraph, with its own savers.

A request contains a database, the number of concurrent threads, the number of steps per thread, and the number of bytes
that each step appends to a list. Savers stay open between requests, as in a server.

Operating system threads are used instead of asyncio: with 16 threads, the async savers took a third longer.
"""

import gc
import operator
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from typing import Annotated, TypedDict

import psycopg.rows
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from psycopg_pool import ConnectionPool


class Chat(TypedDict):
    size: int
    until: int
    count: int
    messages: Annotated[list, operator.add]


def say(chat):
    count = chat["count"] + 1
    return {"count": count, "messages": [f"{count:<{chat['size']}}"]}


def turn(chat):
    return "say" if chat["count"] < chat["until"] else END


def graph(saver):
    graph = StateGraph(Chat)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", turn, ["say", END])
    return graph.compile(checkpointer=saver)


def run_thread(graph, name, request):
    config = {"recursion_limit": 1_000_000_000, "configurable": {"thread_id": name}}
    chat = {"size": request["message"], "until": request["steps"], "count": 0, "messages": []}
    chat = graph.invoke(chat, config, durability="sync")
    assert chat["count"] == len(chat["messages"]) == request["steps"]


@cache
def sqlite_graph(path, synchronous):
    return graph(sqlite_saver(path, synchronous))


def sqlite_saver(path, synchronous):
    # Like SqliteSaver.from_conn_string.
    saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    saver.setup()
    if synchronous is not None:
        saver.conn.execute(f"PRAGMA synchronous={synchronous}")
    return saver


@cache
def postgres_graph(url, threads):
    # Like PostgresSaver.from_conn_string.
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": psycopg.rows.dict_row}
    if threads == 1:
        connection = psycopg.Connection.connect(url, **options)
    else:
        connection = ConnectionPool(url, min_size=threads, max_size=threads, kwargs=options, open=True)
        connection.wait()
    saver = PostgresSaver(connection)
    saver.setup()
    return graph(saver)


def run(request):
    """Return the duration of all concurrent threads in seconds."""
    at, threads = request["at"], request["threads"]
    if request["store"] == "sqlite":
        graph = sqlite_graph(at, request["synchronous"])
    else:
        graph = postgres_graph(at, threads)
    names = [f"{request['name']}-{it}" for it in range(threads)]
    gc.collect()
    if threads == 1:
        start = time.perf_counter()
        run_thread(graph, names[0], request)
        return {"seconds": time.perf_counter() - start}
    with ThreadPoolExecutor(threads) as pool:
        # All threads are started before the measurement begins.
        list(pool.map(lambda _: time.sleep(0.01), names))
        start = time.perf_counter()
        list(pool.map(lambda it: run_thread(graph, it, request), names))
        return {"seconds": time.perf_counter() - start}


def size(request):
    """Return the size in bytes of a SQLite file with one thread."""
    path = request["at"]
    saver = sqlite_saver(path, "OFF")
    run_thread(graph(saver), "thread", request)
    saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saver.conn.close()
    files = [path, path + "-wal"]
    return {"bytes": sum(os.path.getsize(it) for it in files if os.path.exists(it))}


def about():
    """Return the versions of the savers and SQLite's default sync mode."""
    connection = sqlite3.connect(":memory:")
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    connection.close()
    return {
        "sqlite_saver": version("langgraph-checkpoint-sqlite"),
        "postgres_saver": version("langgraph-checkpoint-postgres"),
        "sqlite": sqlite3.sqlite_version,
        "synchronous": synchronous,
    }
