"""Health, server information and the assistants that the server creates for its graphs."""

import httpx
from conftest import URL
from flows import assistant_of, status_error

import pytest

GRAPHS = {"tiny", "approval", "fanout", "parent", "chat", "slow", "fail", "ctx", "route"}


async def test_server_reports_that_it_is_healthy(client):
    assert (await client.http.get("/ok"))["ok"] is True


async def test_info_names_the_version_and_the_features(client):
    info = await client.http.get("/info")
    assert isinstance(info["version"], str) and info["version"]
    assert info["flags"]["assistants"] is True and info["flags"]["crons"] is True


async def test_every_graph_has_an_assistant_created_by_the_system(client):
    found = await client.assistants.search(metadata={"created_by": "system"}, limit=100)
    ids = {it["graph_id"]: it["assistant_id"] for it in found}
    assert GRAPHS <= set(ids)
    assert all(ids[graph] == assistant_of(graph) for graph in GRAPHS)


async def test_assistant_is_found_by_id(client):
    found = await client.assistants.get(assistant_of("tiny"))
    assert (found["graph_id"], found["name"], found["version"]) == ("tiny", "tiny", 1)
    assert found["metadata"] == {"created_by": "system"}
    assert found["config"] == {} and found["context"] == {}
    assert found["created_at"] and found["updated_at"]


@pytest.mark.fault_of_langgraph("accepts the id of a graph in some routes only")
async def test_assistant_is_found_by_graph_id(client):
    assert (await client.assistants.get("tiny"))["assistant_id"] == assistant_of("tiny")


async def test_search_for_assistants_is_paginated(client):
    first = await client.assistants.search(metadata={"created_by": "system"}, limit=4, response_format="object")
    assert len(first["assistants"]) == 4 and first["next"]
    second = await client.assistants.search(metadata={"created_by": "system"}, limit=4, offset=int(first["next"]))
    ids = [it["assistant_id"] for it in [*first["assistants"], *second]]
    assert len(ids) == len(set(ids))


async def test_search_for_assistants_filters_by_graph(client):
    found = await client.assistants.search(graph_id="route", metadata={"created_by": "system"})
    assert [it["graph_id"] for it in found] == ["route"]


async def test_graph_lists_nodes_and_edges(client):
    graph = await client.assistants.get_graph("tiny")
    assert [it["id"] for it in graph["nodes"]] == ["__start__", "a", "b", "__end__"]
    edges = {(it["source"], it["target"]) for it in graph["edges"]}
    assert edges == {("__start__", "a"), ("a", "b"), ("b", "__end__")}


async def test_nodes_of_a_graph_are_listed_in_the_order_in_which_they_run(client):
    expected = {
        "approval": ["draft", "review", "publish"],
        "fanout": ["plan", "worker", "join"],
        "parent": ["p0", "child", "p9"],
        "fail": ["ok", "bad"],
    }
    for name, nodes in expected.items():
        graph = await client.assistants.get_graph(name)
        assert [it["id"] for it in graph["nodes"]] == ["__start__", *nodes, "__end__"]


async def test_graph_marks_conditional_edges(client):
    graph = await client.assistants.get_graph(assistant_of("route"))
    edges = {(it["source"], it["target"]): it.get("conditional", False) for it in graph["edges"]}
    assert edges[("decide", "even")] is True and edges[("decide", "odd")] is True
    assert edges[("even", "__end__")] is False


async def test_graph_with_xray_shows_the_nodes_of_subgraphs(client):
    plain = await client.assistants.get_graph("parent")
    assert "child" in [it["id"] for it in plain["nodes"]]
    xray = await client.assistants.get_graph("parent", xray=True)
    nodes = [it["id"] for it in xray["nodes"]]
    assert "child:c1" in nodes and "child:c2" in nodes and "child" not in nodes
    edges = {(it["source"], it["target"]) for it in xray["edges"]}
    assert {("p0", "child:c1"), ("child:c1", "child:c2"), ("child:c2", "p9")} <= edges


async def test_schemas_describe_input_state_and_context(client):
    schemas = await client.assistants.get_schemas(assistant_of("tiny"))
    assert schemas["graph_id"] == "tiny"
    for name in ("input_schema", "output_schema", "state_schema"):
        properties = schemas[name]["properties"]
        assert set(properties) == {"value", "log", "count"}
        assert properties["value"]["type"] == "string" and properties["log"]["type"] == "array"
        assert properties["count"]["type"] == "integer"
    context = (await client.assistants.get_schemas(assistant_of("ctx")))["context_schema"]
    assert context["properties"]["greeting"]["type"] == "string"


async def test_subgraphs_are_listed_with_their_schemas(client):
    found = await client.assistants.get_subgraphs(assistant_of("parent"))
    assert list(found) == ["child"]
    assert "log" in found["child"]["state_schema"]["properties"]
    assert await client.assistants.get_subgraphs(assistant_of("tiny")) == {}


async def test_unknown_assistant_is_not_found(client):
    unknown = assistant_of("a graph that does not exist")
    with status_error(404):
        await client.assistants.get(unknown)
    with status_error(404):
        await client.assistants.get_graph(unknown)


async def test_errors_have_a_detail():
    async with httpx.AsyncClient(base_url=URL, timeout=300) as http:
        response = await http.get(f"/assistants/{assistant_of('unknown')}")
        assert response.status_code == 404 and isinstance(response.json()["detail"], str)
