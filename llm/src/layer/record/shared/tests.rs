//! Tests of shared parts.

use super::*;

fn line(n: usize) -> String {
    format!("line {n} of a long conversation between two people who disagree")
}

/// Packs values one after the other and checks that unpacking restores them. Returns the stored values.
fn check(values: &[Value]) -> Vec<Value> {
    let (mut writer, mut reader) = (SharedParts::default(), SharedParts::default());
    let pack = |value: &Value| {
        let packed = writer.pack(value);
        let stored = packed.clone().unwrap_or_else(|| value.clone());
        let read: Value = serde_json::from_str(&stored.to_string()).unwrap();
        match packed {
            Some(_) => assert_eq!(reader.unpack(read).as_ref(), Ok(value)),
            None => reader.learn(&read),
        }
        stored
    };
    values.iter().map(pack).collect()
}

#[test]
fn repeated_messages_are_stored_once() {
    let message = |n: usize| json!({ "role": "user", "text": line(n) });
    let call = |n: usize| {
        let messages: Value = (0..n).map(message).collect();
        json!({ "messages": messages, "system": line(99), "temperature": 0.5 })
    };
    let stored = check(&[call(2), call(3), call(3)]);
    assert_eq!(stored[0], call(2));
    // Each message has two items: its text and the message itself.
    assert_eq!(stored[1]["messages"][0], json!({ SAME: 1 }));
    assert_eq!(stored[1]["messages"].as_array().unwrap().len(), 3);
    assert_eq!(stored[1]["messages"][2], message(2));
    assert!(stored[1]["system"][SAME].is_u64(), "{}", stored[1]);
    assert!(stored[2].to_string().len() < 140, "{}", stored[2]);
}

#[test]
fn repeated_lines_of_growing_texts_are_stored_once() {
    let text = |n: usize| json!((0..n).map(|it| line(it) + "\n").collect::<String>() + "go\n");
    let stored = check(&[text(2), text(3), text(3), json!(line(2))]);
    assert_eq!(stored[1], json!({ LINES: [[0, 1], line(2) + "\ngo\n"] }));
    assert_eq!(stored[2], json!({ SAME: 1 }));
    // At its first occurrence, the line ended with a line feed.
    assert_eq!(stored[3], json!({ LINES: [2] }));
}

#[test]
fn parts_can_repeat_within_one_value() {
    check(&[
        json!([line(1), line(1), line(2)].join("\n\n")),
        json!([line(2), line(1) + "\n", "\n", "", line(2), [line(3)], [line(3)], 7, null]),
        json!({ "a": [line(3)], "b": line(3), "c": "short" }),
    ]);
}

#[test]
fn values_with_a_mark_are_not_packed() {
    let value = json!({ "schema": { LINES: [[0, 1]] }, "text": line(1) });
    let mut parts = SharedParts::default();
    assert_eq!(parts.pack(&value), None);
    assert_eq!(parts.pack(&json!(line(1))), Some(json!({ SAME: 0 })));
}

#[test]
fn model_of_a_call_is_never_replaced_by_a_reference() {
    let call =
        |n: usize| json!({ "model": { "model": line(0), "provider": line(1) }, "x": line(n) });
    let stored = check(&[call(2), call(2), call(0), call(1)]);
    assert!(stored.iter().all(|it| it["model"] == call(0)["model"]), "{stored:?}");
    assert!(stored[1..].iter().all(|it| it["x"][SAME].is_u64()), "{stored:?}");
}

#[test]
fn expansion_of_references_is_limited_in_size() {
    let mut parts = SharedParts::default();
    parts.learn(&json!("x".repeat(1 << 20)));
    // Item 0 has 1 MiB, and each further item contains the one before twice.
    let double =
        |parts: &mut SharedParts, n: usize| parts.unpack(json!([[{ SAME: n }, { SAME: [n, n] }]]));
    for n in 0..5 {
        assert!(double(&mut parts, n).is_ok(), "{n}");
    }
    let problem = "the call is larger than 64 MiB when its references are replaced";
    assert_eq!(double(&mut parts, 5), Err(problem.to_owned()));

    let mut parts = SharedParts::default();
    parts.learn(&json!("x".repeat(1 << 20)));
    assert!(parts.unpack(json!({ LINES: vec![0; 63] })).is_ok());
    assert_eq!(parts.unpack(json!({ LINES: vec![0; 65] })), Err(problem.to_owned()));
}

#[test]
fn expansion_of_references_is_limited_in_depth() {
    let mut parts = SharedParts::default();
    parts.learn(&json!(line(0)));
    // Each call adds an item that is one level deeper than the one before.
    let deeper = |n: usize| parts.unpack(json!([[{ SAME: n }]]));
    let results: Vec<_> = (0..128).map(deeper).collect();
    assert!(results[..127].iter().all(Result::is_ok));
    let problem = "the call is nested deeper than 128 levels when its references are replaced";
    assert_eq!(results[127], Err(problem.to_owned()));
}

#[test]
fn invalid_references_are_errors() {
    for reference in [
        json!({ LINES: [[0, 0]] }),
        json!({ LINES: [[1, 0]] }),
        json!({ LINES: [7] }),
        json!({ LINES: [null] }),
        json!({ LINES: "x" }),
        json!({ SAME: 0 }),
        json!({ SAME: -1 }),
        json!([{ SAME: [0, 0] }]),
        json!([{ SAME: 0 }]),
    ] {
        assert!(SharedParts::default().unpack(reference.clone()).is_err(), "{reference}");
    }
}
