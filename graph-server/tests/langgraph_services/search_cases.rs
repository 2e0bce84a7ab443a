//! Searches for threads whose results are the same in all databases.

use serde_json::{Value, json};

/// Returns the metadata of the thread with this number. Text with U+0000 cannot be stored as `jsonb` in PostgreSQL.
pub(crate) fn metadata(number: usize) -> Value {
    json!({
        "n": number,
        "tags": ["a", number],
        "inner": { "even": number.is_multiple_of(2) },
        "nul": "\u{0}",
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
        (json!({ "values": { "value": "x" } }), vec![]),
    ]
}

/// Returns the request for a case: it sorts by age and selects the id.
pub(crate) fn request(case: &Value) -> Value {
    let mut request = case.clone();
    request["sort_by"] = json!("created_at");
    request["select"] = json!(["thread_id"]);
    request
}

/// Returns the numbers of the threads that a search has found.
pub(crate) fn numbers(found: &Value, ids: &[String]) -> Vec<usize> {
    let number = |thread: &Value| ids.iter().position(|id| thread["thread_id"] == **id).unwrap();
    found.as_array().unwrap().iter().map(number).collect()
}
