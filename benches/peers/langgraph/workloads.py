"""The workloads of ../../src/compare/workloads.rs in LangGraph: `workloads.py sync` or `workloads.py async`.

../../src/protocol.rs describes the requests and answers, ../../src/data.rs the data.
"""

import asyncio
import atexit
import gc
import http.client
import json
import operator
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

import uvloop
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

ASYNC = sys.argv[1:] == ["async"]
NAMES = count()
THREADS = 16
# LangGraph's benchmarks use this event loop.
LOOP = uvloop.new_event_loop()


class Cannot(Exception):
    """Raised for a workload that this program does not implement, with the reason."""


def node(function):
    """Return a node for the mode: in the async mode, nodes are coroutines, as in LangGraph's benchmarks."""
    if not ASYNC:
        return function

    async def call(state):
        return function(state)

    return call


def config():
    return {"recursion_limit": 1_000_000_000, "configurable": {"thread_id": f"thread-{next(NAMES)}"}}


def runner(graph, state, answer, durability=None):
    """Return a function that runs the graph once, with a fresh input."""
    options = {"durability": durability} if durability else {}

    async def run_async():
        return answer(await graph.ainvoke(state(), config(), **options))

    def run():
        if ASYNC:
            return LOOP.run_until_complete(run_async())
        return answer(graph.invoke(state(), config(), **options))

    return run


class Counter(TypedDict):
    count: int
    until: int


def tick(state):
    return {"count": state["count"] + 1}


def loop_graph(saver=None):
    graph = StateGraph(Counter)
    graph.add_node("tick", node(tick))
    graph.add_edge(START, "tick")
    turn = lambda state: "tick" if state["count"] < state["until"] else END
    graph.add_conditional_edges("tick", turn, ["tick", END])
    return graph.compile(checkpointer=saver)


def loop(size):
    return runner(loop_graph(), lambda: {"count": 0, "until": size}, lambda it: str(it["count"]))


class Sum(TypedDict):
    parts: int
    sum: Annotated[int, operator.add]


def fan_out(size):
    graph = StateGraph(Sum)
    graph.add_node("add", node(lambda part: {"sum": part}))
    scatter = lambda state: [Send("add", part) for part in range(state["parts"])]
    graph.add_conditional_edges(START, scatter, ["add"])
    return runner(graph.compile(), lambda: {"parts": size, "sum": 0}, lambda it: str(it["sum"]))


class Log(TypedDict):
    until: int
    lines: Annotated[list, operator.add]


def growing_list(size):
    graph = StateGraph(Log)
    graph.add_node("write", node(lambda state: {"lines": [len(state["lines"])]}))
    graph.add_edge(START, "write")
    page = lambda state: "write" if len(state["lines"]) < state["until"] else END
    graph.add_conditional_edges("write", page, ["write", END])
    return runner(graph.compile(), lambda: {"until": size, "lines": []}, lambda it: str(len(it["lines"])))


def sequential(size, saver=None):
    graph = StateGraph(Counter)
    for index in range(size):
        graph.add_node(f"node{index:06}", node(tick))
        graph.add_edge(f"node{index - 1:06}" if index else START, f"node{index:06}")
    durability = "exit" if saver else None
    start = lambda: {"count": 0, "until": 0}
    return runner(graph.compile(checkpointer=saver), start, lambda it: str(it["count"]), durability)


def describe(texts):
    texts = list(texts)
    return f"{len(texts)} texts of {sum(map(len, texts))} characters"


class Jokes(TypedDict):
    subjects: list
    jokes: Annotated[list, operator.add]


class JokeInput(TypedDict):
    subject: list


class JokeOutput(TypedDict):
    jokes: list


class JokeState(JokeInput, JokeOutput):
    pass


def fanout_to_subgraph(size, saver=None):
    inner = StateGraph(JokeState, input_schema=JokeInput, output_schema=JokeOutput)
    inner.add_node("edit", node(lambda it: {"subject": f"{it['subject']} - hohoho"}))
    inner.add_node("generate", node(lambda it: {"jokes": [f"Joke about {it['subject']}"]}))
    inner.add_node("bump", node(lambda it: {"jokes": [it["jokes"][0] + " a"]}))
    inner.add_edge(START, "edit")
    inner.add_edge("edit", "generate")
    inner.add_edge("generate", "bump")
    again = lambda it: END if it["jokes"][0].endswith(" a" * 10) else "bump"
    inner.add_conditional_edges("bump", again, ["bump", END])
    graph = StateGraph(Jokes)
    scatter = lambda it: [Send("generate_joke", {"subject": subject}) for subject in it["subjects"]]
    graph.add_conditional_edges(START, scatter, ["generate_joke"])
    graph.add_node("generate_joke", inner.compile())
    graph.add_edge("generate_joke", END)
    subjects = [[chr(ord("a") + index % 26)] * 1000 for index in range(size)]
    compiled = graph.compile(checkpointer=saver)
    durability = "exit" if saver else None
    return runner(compiled, lambda: {"subjects": subjects}, lambda it: describe(it["jokes"]), durability)


def new_or_old(old, new):
    return new if new is not None else old


def merge(old, new):
    return {**old, **new}


@dataclass
class Wide:
    """A state with many fields and reducers."""

    size: int
    messages: Annotated[list, operator.add] = field(default_factory=list)
    trigger_events: Annotated[list, operator.add] = field(default_factory=list)
    categorizations: Annotated[list, operator.add] = field(default_factory=list)
    responses: Annotated[list, operator.add] = field(default_factory=list)
    primary_issue_medium: Annotated[str | None, new_or_old] = None
    autoresponse: Any = None
    issue: Annotated[Any, new_or_old] = None
    relevant_rules: Any = None
    memory_docs: Any = None
    user_info: Annotated[Any, new_or_old] = None
    crm_info: Annotated[Any, new_or_old] = None
    email_thread_id: Annotated[str | None, new_or_old] = None
    slack_participants: Annotated[dict, merge] = field(default_factory=dict)
    bot_id: str | None = None
    notified_assignees: Annotated[dict, merge] = field(default_factory=dict)


def document(size):
    width, depth = {300: (5, 5), 600: (3, 5)}.get(size, (3, 3))
    values = ["hi?" * 10, True, 1, 6327816386138, None] * 5
    inner = {str(index) * 10: values for index in range(depth)}
    return {str(index) * 10: inner for index in range(width)}


def five(state):
    last, text = state.categorizations[-1], "x" * state.size
    names = {"slack_participants": last, "notified_assignees": last}
    return {"user_info": last, "crm_info": last, "email_thread_id": text, "bot_id": text} | names


WIDE_NODES = {
    "one": lambda it: {"trigger_events": it.messages, "primary_issue_medium": "x" * it.size},
    "two": lambda it: {"autoresponse": it.trigger_events[-1], "issue": it.trigger_events[-1]},
    "three": lambda it: {"relevant_rules": [it.autoresponse]},
    "four": lambda it: dict.fromkeys(["categorizations", "responses", "memory_docs"], it.trigger_events),
    "five": five,
    "six": lambda it: {"messages": it.responses},
}


def wide_state(size, saver=None):
    graph = StateGraph(Wide)
    for name, function in WIDE_NODES.items():
        graph.add_node(name, node(function))
    edges = [(START, "one"), ("one", "two"), ("two", "three"), ("two", "four"), (["three", "four"], "five"), ("five", "six")]
    for edge in edges:
        graph.add_edge(*edge)
    again = lambda it: END if len(it.messages) > it.size else "one"
    graph.add_conditional_edges("six", again, ["one", END])
    message = document(size)

    def answer(it):
        lengths = [len(it[key]) for key in ("messages", "trigger_events", "categorizations", "responses")]
        return "{} messages, {} events, {} categorizations, {} responses".format(*lengths)

    compiled = graph.compile(checkpointer=saver)
    start = lambda: {"size": size, "messages": [message]}
    return runner(compiled, start, answer, "exit" if saver else None)


# Only the agents need LangChain, and its import takes a second.
def react_agent(size, saver=None):
    from agents import react_agent

    return run_agent(react_agent(size, saver), "exit" if saver else None)


def agent_loop(size):
    from agents import agent_loop

    return run_agent(agent_loop(size))


def run_agent(agent, durability=None):
    answer = lambda it: describe(message.content for message in it["messages"])
    return runner(agent, lambda: {"messages": [("user", "hi?")]}, answer, durability)


class Value(TypedDict):
    count: int


def nested(size):
    inner = StateGraph(Value)
    inner.add_node("increment", node(tick))
    inner.add_edge(START, "increment")
    graph = StateGraph(Counter)
    graph.add_node("call", inner.compile())
    graph.add_edge(START, "call")
    turn = lambda state: "call" if state["count"] < state["until"] else END
    graph.add_conditional_edges("call", turn, ["call", END])
    return runner(graph.compile(), lambda: {"count": 0, "until": size}, lambda it: str(it["count"]))


def threads(size):
    graph = loop_graph(InMemorySaver())
    configs = lambda: [config() for _ in range(size)]
    inputs = [{"count": 0, "until": 10}] * size
    total = lambda states: str(sum(state["count"] for state in states))
    if ASYNC:
        batch = lambda: graph.abatch(inputs, configs(), durability="sync")

        async def run():
            return total(await batch())

        return lambda: LOOP.run_until_complete(run())
    # `batch` has a pool of a few operating system threads.
    return lambda: total(graph.batch(inputs, configs(), durability="sync"))


class Spins(TypedDict):
    branches: int
    results: Annotated[list, operator.add]


def spin(seed):
    x, mask = seed + 1, (1 << 64) - 1
    for _ in range(1_000_000):
        x ^= (x << 13) & mask
        x ^= x >> 7
        x ^= (x << 17) & mask
    return {"results": [x]}


def cpu_branches(size):
    graph = StateGraph(Spins)
    graph.add_node("spin", node(spin))
    scatter = lambda state: [Send("spin", seed) for seed in range(state["branches"])]
    graph.add_conditional_edges(START, scatter, ["spin"])
    answer = lambda it: str(sum(it["results"]) % (1 << 64))
    return runner(graph.compile(), lambda: {"branches": size, "results": []}, answer)


class Chat(TypedDict):
    until: int
    count: int
    messages: Annotated[list, operator.add]


def say(chat):
    number = chat["count"] + 1
    return {"count": number, "messages": [f"{number:<100}"]}


def chat_graph(saver):
    graph = StateGraph(Chat)
    graph.add_node("say", node(say))
    graph.add_edge(START, "say")
    turn = lambda chat: "say" if chat["count"] < chat["until"] else END
    graph.add_conditional_edges("say", turn, ["say", END])
    return graph.compile(checkpointer=saver)


def database_path():
    return os.path.join(os.environ["GRAPH_BENCH_DIR"], f"{os.getpid()}-{next(NAMES)}.db")


def open_saver(path, synchronous="FULL"):
    if ASYNC:
        return LOOP.run_until_complete(open_async_saver(path, synchronous))
    # Like SqliteSaver.from_conn_string.
    saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    saver.setup()
    saver.conn.execute(f"PRAGMA synchronous={synchronous}")
    return saver


async def open_async_saver(path, synchronous):
    import aiosqlite

    saver = AsyncSqliteSaver(await aiosqlite.connect(path))
    await saver.setup()
    await saver.conn.execute(f"PRAGMA synchronous={synchronous}")
    return saver


def sqlite_loop(size):
    start = lambda: {"until": size, "count": 0, "messages": []}
    return runner(chat_graph(open_saver(database_path())), start, lambda it: str(len(it["messages"])), "sync")


def sqlite_loop_16(size):
    graph = chat_graph(open_saver(database_path()))
    inputs = [{"until": size, "count": 0, "messages": []}] * THREADS
    configs = lambda: [config() | {"max_concurrency": THREADS} for _ in range(THREADS)]
    total = lambda states: str(sum(len(state["messages"]) for state in states))
    if ASYNC:

        async def run():
            return total(await graph.abatch(inputs, configs(), durability="sync"))

        return lambda: LOOP.run_until_complete(run())
    return lambda: total(graph.batch(inputs, configs(), durability="sync"))


def resume(size):
    if size > 2_000:
        raise Cannot("not run: the file would have more than a gigabyte, because every step stores the whole list")
    path, thread = database_path(), config()
    start = {"until": size, "count": 0, "messages": []}
    graph = chat_graph(open_saver(path, "OFF"))
    if ASYNC:
        LOOP.run_until_complete(graph.ainvoke(start, thread, durability="sync"))
    else:
        graph.invoke(start, thread, durability="sync")

    def answer(state):
        assert len(state["messages"]) > size
        return "resumed"

    def run():
        graph = chat_graph(open_saver(path))
        if ASYNC:
            return answer(LOOP.run_until_complete(graph.ainvoke({"until": size}, thread, durability="sync")))
        return answer(graph.invoke({"until": size}, thread, durability="sync"))

    return run


SERVED = {"dependencies": ["."], "graphs": {"count": f"{Path(__file__).parent}/served.py:graph"}}


@cache
def start_server():
    """Start LangGraph's development server, which stores threads in memory, and return its process and its port."""
    directory = tempfile.mkdtemp(dir=os.environ["GRAPH_BENCH_DIR"])
    Path(directory, "langgraph.json").write_text(json.dumps(SERVED))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*command, "--n-jobs-per-worker", "10"], cwd=directory, **quiet)
    # This process also ends if the benchmark is interrupted, because its standard input is then closed.
    atexit.register(process.kill)
    while process.poll() is None:
        try:
            http.client.HTTPConnection("127.0.0.1", port).connect()
            return process.pid, port
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise RuntimeError("the server ended")


COUNT_RUN = {"assistant_id": "count", "input": {"count": 0}}


class Connection:
    """A connection to the server, which is opened with the first request."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return self.connection.getresponse()

    def round_trip(self):
        thread = json.loads(self.post("/threads", {}).read())["thread_id"]
        return json.loads(self.post(f"/threads/{thread}/runs/wait", COUNT_RUN).read())["count"]

    def first_event(self):
        line = self.post("/runs/stream", COUNT_RUN).readline().decode().rstrip()
        # The rest of the stream is not read, so the connection cannot be used again.
        self.connection.close()
        return line


def of_server(run):
    if not ASYNC:
        raise Cannot("the server is asynchronous")
    run.pid = start_server()[0]
    return run


def server(size):
    def run():
        connection = Connection(start_server()[1])
        return str(sum(connection.round_trip() for _ in range(size)))

    return of_server(run)


def server_concurrent(size):
    threads = ThreadPoolExecutor(size)

    def run():
        connections = [Connection(start_server()[1]) for _ in range(size)]
        return str(sum(threads.map(Connection.round_trip, connections)))

    return of_server(run)


def server_first_event(size):
    def run():
        connection = Connection(start_server()[1])
        return str(sum(connection.first_event() == "event: metadata" for _ in range(size)))

    return of_server(run)


PLAIN = {
    "loop": loop,
    "fan-out": fan_out,
    "growing-list": growing_list,
    "sequential": sequential,
    "fanout-to-subgraph": fanout_to_subgraph,
    "wide-state": wide_state,
    "react-agent": react_agent,
    "agent-loop": agent_loop,
    "nested": nested,
    "threads": threads,
    "cpu-branches": cpu_branches,
    "sqlite-loop": sqlite_loop,
    "sqlite-loop-16": sqlite_loop_16,
    "resume": resume,
    "server": server,
    "server-concurrent": server_concurrent,
    "server-first-event": server_first_event,
}


@cache
def prepare(workload, size):
    name = workload.removesuffix("-checkpoint")
    if name not in PLAIN:
        raise Cannot(f"no program for `{workload}`")
    return PLAIN[name](size) if name == workload else PLAIN[name](size, InMemorySaver())


def status_bytes(pid, key):
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith(key)), 0)


def cpu_seconds(pid):
    if pid == "self":
        return time.process_time()
    # The times follow the name of the program, which is in parentheses.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(run, runs):
    # A server is another process.
    pid = getattr(run, "pid", "self")
    gc.collect()
    try:
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    before, cpu, start = status_bytes(pid, "VmRSS:"), cpu_seconds(pid), time.perf_counter()
    for _ in range(runs):
        answer = run()
    seconds, cpu = time.perf_counter() - start, cpu_seconds(pid) - cpu
    memory = max(0, status_bytes(pid, "VmHWM:") - before)
    return {"answer": answer, "seconds": seconds, "cpu": cpu, "memory": memory}


def serve(line):
    workload, size, runs = line.split()
    try:
        return measure(prepare(workload, int(size)), int(runs))
    except Cannot as reason:
        return {"cannot": str(reason)}
    except Exception as error:
        return {"cannot": f"failed: {type(error).__name__}: {error}"}


def main():
    print(json.dumps({"version": f"{version('langgraph')}, Python {sys.version.split()[0]}"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(line)), flush=True)


if __name__ == "__main__":
    asyncio.set_event_loop(LOOP)
    main()
