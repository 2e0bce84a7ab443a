"""The review of a run of `consulting serve`: the run interrupts the graph, and the client answers."""

from flows import collect, data_of, new_thread

GRAPH = "consulting"
INPUT = {"ticker": "NVDA", "rounds": 1, "review": True}


async def test_a_client_answers_the_review(client):
    thread = await new_thread(client)
    modes = ["updates", "values"]
    parts = await collect(client.runs.stream(thread, GRAPH, input=INPUT, stream_mode=modes))
    [interrupt] = data_of(parts, "updates")[-1]["__interrupt__"]
    moves = interrupt["value"]["moves"]
    assert len(moves) > 1, moves
    state = await client.threads.get_state(thread)
    assert state["next"] == ["run"]
    assert state["tasks"][0]["interrupts"] == [interrupt]
    assert (await client.threads.get(thread))["status"] == "interrupted"

    # An answer that is rejected leaves the question open.
    rejected = await client.runs.wait(thread, GRAPH, command={"resume": {"moves": []}}, raise_error=False)
    assert "keep at least one" in rejected["__error__"]["message"], rejected
    answer = {interrupt["id"]: {"moves": moves[:1]}}
    output = await client.runs.wait(thread, GRAPH, command={"resume": answer})
    assert output["status"] == "complete" and output["run_id"] == interrupt["value"]["run_id"], output
    assert (await client.threads.get(thread))["status"] == "idle"
