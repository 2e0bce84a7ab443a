"""Runs of a program that serves its graph, such as `consulting serve`.

The environment variable `PROGRAM_GRAPH` names the graph, and `PROGRAM_INPUT` contains the input of a short run as JSON.
"""

import json
import os

from flows import assistant_of, collect, data_of, names_of, new_thread

GRAPH = os.environ["PROGRAM_GRAPH"]
INPUT = json.loads(os.environ["PROGRAM_INPUT"])


async def test_the_graph_has_an_assistant_with_schemas_and_a_drawing(client):
    found = await client.assistants.search(graph_id=GRAPH)
    assert [it["assistant_id"] for it in found] == [assistant_of(GRAPH)]
    schemas = await client.assistants.get_schemas(GRAPH)
    assert set(INPUT) <= set(schemas["input_schema"]["properties"])
    drawing = await client.assistants.get_graph(GRAPH)
    assert "run" in [it["id"] for it in drawing["nodes"]]


async def test_a_run_is_streamed_and_stored_in_its_thread(client):
    thread = await new_thread(client)
    modes = ["updates", "custom", "values"]
    parts = await collect(client.runs.stream(thread, GRAPH, input=INPUT, stream_mode=modes, stream_resumable=True))
    assert names_of(parts)[0] == "metadata" and not data_of(parts, "error"), parts
    # The events of the program are custom events.
    events = data_of(parts, "custom")
    assert events and all("type" in it for it in events), events
    update = data_of(parts, "updates")[-1]["run"]
    assert update["status"] == "complete", update

    state = await client.threads.get_state(thread)
    assert state["values"] == {**INPUT, **update} == data_of(parts, "values")[-1]
    assert state["next"] == []
    history = await client.threads.get_history(thread)
    assert history[0]["checkpoint"] == state["checkpoint"] and len(history) == 3
    [run] = await client.runs.list(thread)
    assert run["status"] == "success"
    assert (await client.threads.get(thread))["status"] == "idle"
    # A client that reconnects receives the same events.
    again = await collect(client.runs.join_stream(thread, run["run_id"], stream_mode=modes, last_event_id="-1"))
    assert data_of(again, "custom") == events
