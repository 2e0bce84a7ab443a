//! Searches for threads whose results are the same in all databases.

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
    let number = |thread: &Value| ids.iter().position(|id| thread["thread_id"] == **id).unwrap();
    found.as_array().unwrap().iter().map(number).collect()
}
