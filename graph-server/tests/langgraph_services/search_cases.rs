//! Searches for threads, assistants and crons whose results are the same in all databases.

use serde_json::{Value, json};

/// Returns the metadata of the thread with this number. Text with U+0000 cannot be stored as `jsonb` in PostgreSQL.
pub(crate) fn metadata(number: usize) -> Value {
    json!({
        "n": number,
        "tags": ["a", number],
        "inner": { "even": number.is_multiple_of(2) },
        "nul": "\u{0}",
        "none": null,
        "nested": [["x", number], { "y": 1 }],
        "name": "Zoë 日本",
        // The next smaller integer has the same floating-point form.
        "large": 9_007_199_254_740_993_u64,
    })
}

/// Returns searches for threads with the metadata above, and the numbers of the threads that they find, in order. `ids`
/// are the ids of five threads, oldest first.
pub(crate) fn cases(ids: &[String]) -> Vec<(Value, Vec<usize>)> {
    vec![
        (json!({}), vec![4, 3, 2, 1, 0]),
        (json!({ "sort_order": "asc", "limit": 2, "offset": 1 }), vec![1, 2]),
        (json!({ "offset": 9 }), vec![]),
        (json!({ "ids": [ids[3], ids[1]] }), vec![3, 1]),
        (json!({ "ids": [] }), vec![]),
        (json!({ "status": "idle", "limit": 1 }), vec![4]),
        (json!({ "status": "busy" }), vec![]),
        (json!({ "metadata": { "n": 2.0, "nul": "\u{0}" } }), vec![2]),
        (json!({ "metadata": { "n": "2" } }), vec![]),
        (json!({ "metadata": { "tags": ["a", 3] } }), vec![3]),
        (json!({ "metadata": { "tags": ["a"] } }), vec![]),
        (json!({ "metadata": { "tags": [3, "a"] } }), vec![]),
        (json!({ "metadata": { "tags": { "0": "a" } } }), vec![]),
        (json!({ "metadata": { "inner": {} } }), vec![4, 3, 2, 1, 0]),
        (json!({ "metadata": { "inner": { "even": false } } }), vec![3, 1]),
        (json!({ "exclude_metadata": { "tags": ["a", 4] } }), vec![3, 2, 1, 0]),
        (json!({ "exclude_metadata": [{ "n": 0 }, { "inner": { "even": false } }] }), vec![4, 2]),
        (json!({ "metadata": { "nul": "\u{fffd}" } }), vec![]),
        (json!({ "metadata": { "nul": "\\u0000" } }), vec![]),
        (json!({ "metadata": { "none": null, "n": 1 } }), vec![1]),
        (json!({ "metadata": { "missing": null } }), vec![]),
        (json!({ "metadata": { "nested": [["x", 3], { "y": 1.0 }] } }), vec![3]),
        (json!({ "metadata": { "nested": [[3, "x"], { "y": 1 }] } }), vec![]),
        (json!({ "metadata": { "nested": [["x", 3], {}] } }), vec![]),
        (json!({ "metadata": { "name": "Zoë 日本", "n": 0 } }), vec![0]),
        (json!({ "metadata": { "name": "Zoe 日本" } }), vec![]),
        (json!({ "metadata": { "large": 9_007_199_254_740_993_u64, "n": 0 } }), vec![0]),
        (json!({ "metadata": { "large": 9_007_199_254_740_992.0 } }), vec![]),
        (json!({ "values": { "value": "x" } }), vec![]),
        (json!({ "sort_by": "status", "sort_order": "asc", "limit": 2 }), vec![0, 1]),
        (json!({ "sort_by": "updated_at" }), vec![4, 3, 2, 1, 0]),
    ]
}

/// Returns the request for a case: it selects the id, and sorts by age unless the case says otherwise.
pub(crate) fn request(case: &Value) -> Value {
    let mut request = case.clone();
    if request["sort_by"].is_null() {
        request["sort_by"] = json!("created_at");
    }
    request["select"] = json!(["thread_id"]);
    request
}

/// Returns the numbers of the threads that a search has found.
pub(crate) fn numbers(found: &Value, ids: &[String]) -> Vec<usize> {
    numbers_by("thread_id", found, ids)
}

/// Returns the positions in `ids` of the objects that a search has found. The field `key` contains the id of an object.
pub(crate) fn numbers_by(key: &str, found: &Value, ids: &[String]) -> Vec<usize> {
    let number = |object: &Value| ids.iter().position(|id| object[key] == **id).unwrap();
    found.as_array().unwrap().iter().map(number).collect()
}

/// Returns requests to create assistants of a graph.
pub(crate) fn assistants(graph: &str) -> Vec<Value> {
    let named = [("Alpha", "a"), ("beta \u{0}", "b"), ("ALPHABET", "a")];
    let request = |(name, team): (&str, &str)| json!({ "graph_id": graph, "name": name, "metadata": { "team": team } });
    named.into_iter().map(request).collect()
}

/// Returns searches for the assistants above, and the positions of the assistants that each search finds, in order. The
/// name of the graph must not contain the letter a.
pub(crate) fn assistant_cases(graph: &str) -> Vec<(Value, Vec<usize>)> {
    let by_name = json!({ "graph_id": graph, "name": "a", "sort_by": "name", "sort_order": "asc" });
    vec![
        (json!({ "graph_id": graph, "limit": 3 }), vec![2, 1, 0]),
        (json!({ "graph_id": "other" }), vec![]),
        (json!({ "graph_id": graph, "name": "alpha" }), vec![2, 0]),
        (json!({ "graph_id": graph, "name": "a \u{0}" }), vec![1]),
        (json!({ "graph_id": graph, "name": "\\u0000" }), vec![]),
        (json!({ "metadata": { "team": "a" } }), vec![2, 0]),
        (json!({ "metadata": { "team": "a" }, "name": "BET" }), vec![2]),
        (by_name, vec![2, 0, 1]),
        (
            json!({ "graph_id": graph, "metadata": { "team": "a" }, "limit": 1, "offset": 1 }),
            vec![0],
        ),
    ]
}

fn with(request: &Value, key: &str, value: &str) -> Value {
    let mut request = request.clone();
    request[key] = json!(value);
    request
}

/// Returns requests to create crons of an assistant. The second one has ended, and the first one has no end time.
pub(crate) fn crons(assistant: &str) -> Vec<Value> {
    let cron =
        json!({ "assistant_id": assistant, "schedule": "0 0 1 1 *", "metadata": { "team": "a" } });
    let ended = with(&with(&cron, "end_time", "2020-01-01T00:00:00"), "schedule", "0 0 1 6 *");
    vec![cron.clone(), ended, with(&cron, "end_time", "2900-01-01T00:00:00")]
}

/// Returns searches for the crons above, and the positions of the crons that each search finds, in order. The third
/// cron is disabled. `thread` is the id of a thread without crons.
pub(crate) fn cron_cases(assistant: &str, thread: &str) -> Vec<(Value, Vec<usize>)> {
    vec![
        (json!({}), vec![2, 1, 0]),
        (json!({ "enabled": false }), vec![2]),
        (json!({ "enabled": true, "limit": 1 }), vec![1]),
        (json!({ "assistant_id": assistant, "sort_order": "asc", "offset": 1 }), vec![1, 2]),
        (json!({ "thread_id": thread }), vec![]),
        (json!({ "metadata": { "team": "b" } }), vec![]),
        (json!({ "metadata": { "team": "a" }, "enabled": true }), vec![1, 0]),
        // A cron without this time is sorted as if the time were later than all others.
        (json!({ "sort_by": "end_time", "sort_order": "asc" }), vec![1, 2, 0]),
        (json!({ "sort_by": "end_time" }), vec![0, 2, 1]),
        (json!({ "sort_by": "next_run_date" }), vec![1, 2, 0]),
    ]
}
