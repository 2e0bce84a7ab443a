"""MCP and A2A endpoints, metrics, the OpenAPI document and webhooks."""

import json

import httpx
import pytest
from conftest import URL
from flows import TINY_INPUT, assistant_of, new_thread

ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def http():
    with httpx.Client(base_url=URL, timeout=300) as client:
        yield client


def call(http, path, method, params=None, number=1):
    """Sends a JSON-RPC request and returns the answer."""
    body = {"jsonrpc": "2.0", "id": number, "method": method}
    if params is not None:
        body["params"] = params
    response = http.post(path, json=body, headers=ACCEPT, follow_redirects=True)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["jsonrpc"] == "2.0" and answer["id"] == number
    return answer


def test_mcp_lists_the_graphs_as_tools_and_calls_them(http):
    client_info = {"name": "suite", "version": "1"}
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client_info}
    started = call(http, "/mcp", "initialize", params)["result"]
    assert "tools" in started["capabilities"] and started["serverInfo"]["name"]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert http.post("/mcp", json=note, headers=ACCEPT).status_code == 202
    tools = {it["name"]: it for it in call(http, "/mcp", "tools/list")["result"]["tools"]}
    assert tools["tiny"]["inputSchema"]["properties"]["value"]["type"] == "string"
    result = call(http, "/mcp", "tools/call", {"name": "tiny", "arguments": TINY_INPUT})["result"]
    assert "xab" in result["content"][0]["text"] and not result.get("isError")
    assert call(http, "/mcp", "no/such/method")["error"]["code"] == -32601


def test_a2a_answers_a_message(http):
    assistant = assistant_of("chat")
    card = http.get("/.well-known/agent-card.json", params={"assistant_id": assistant}).json()
    assert card["name"] == "chat" and card["url"].endswith(f"/a2a/{assistant}") and card["skills"]
    message = {"role": "user", "messageId": "m1", "parts": [{"kind": "text", "text": "hi"}]}
    task = call(http, f"/a2a/{assistant}", "message/send", {"message": message})["result"]
    assert task["kind"] == "task" and task["status"]["state"] == "completed" and task["contextId"]
    assert task["artifacts"][0]["parts"][0]["text"] == "you said hi"
    assert call(http, f"/a2a/{assistant}", "no/such/method")["error"]["code"] == -32601


def test_a2a_streams_an_answer(http):
    message = {"role": "user", "messageId": "m1", "parts": [{"kind": "text", "text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}}
    headers = {"accept": "text/event-stream"}
    with http.stream("POST", f"/a2a/{assistant_of('chat')}", json=body, headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [it[5:] for it in response.iter_lines() if it.startswith("data:")]
    results = [json.loads(it)["result"] for it in lines]
    assert results[0]["kind"] == "task"
    artifacts = [it["artifact"] for it in results if it["kind"] == "artifact-update"]
    assert artifacts[-1]["parts"][0]["text"] == "you said hi"
    assert results[-1]["status"]["state"] == "completed" and results[-1]["final"] is True


def test_metrics_have_the_prometheus_format(http):
    response = http.get("/metrics")
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/plain")
    assert "# TYPE" in response.text


def test_openapi_document_lists_the_operations(http):
    document = http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    expected = {
        "/assistants/search",
        "/threads/{thread_id}/state",
        "/threads/{thread_id}/history",
        "/threads/{thread_id}/runs/stream",
        "/runs/wait",
        "/store/items",
    }
    assert expected <= set(document["paths"])
    assert http.get("/docs").status_code == 200


async def test_webhook_to_a_loopback_address_is_rejected(client):
    thread = await new_thread(client)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        await client.runs.create(thread, "tiny", input=TINY_INPUT, webhook="http://127.0.0.1:9/hook")
    assert 400 <= caught.value.response.status_code < 500
    assert await client.runs.list(thread) == []


def test_pages_of_local_origins_may_read_the_headers_that_clients_use(http):
    origin = {"origin": "http://localhost:3000"}
    ask = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,x-api-key"}
    preflight = http.options("/threads/search", headers={**origin, **ask})
    assert preflight.status_code in (200, 204), preflight.text
    assert preflight.headers["access-control-allow-origin"] in ("*", origin["origin"])
    assert "x-api-key" in preflight.headers["access-control-allow-headers"].lower()
    answer = http.get("/info", headers=origin)
    exposed = answer.headers["access-control-expose-headers"].lower()
    assert "content-location" in exposed and "x-pagination-total" in exposed
