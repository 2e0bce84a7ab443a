use serde_json::json;

use super::*;

#[track_caller]
fn check(filter: &Value, value: &Value, expect: bool) {
    let parsed = Filter::parse(filter).unwrap();
    assert_eq!(parsed.matches(value), expect, "{filter} on {value}");
}

#[track_caller]
fn check_error(filter: &Value, expect: &str) {
    assert_eq!(Filter::parse(filter).unwrap_err().to_string(), expect);
}

#[test]
fn plain_value_matches_by_equality() {
    check(&json!({}), &json!({"name": "Ada"}), true);
    check(&json!({"name": "Ada"}), &json!({"name": "Ada", "age": 36}), true);
    check(&json!({"name": "Ada"}), &json!({"name": "Bob"}), false);
    check(&json!({"name": "Ada", "age": 36}), &json!({"name": "Ada", "age": 37}), false);
    check(&json!({"age": 36}), &json!({"age": "36"}), false);
    check(&json!({"age": 36}), &json!({"age": 36.0}), true);
    check(&json!({"flag": 1}), &json!({"flag": true}), false);
}

#[test]
fn missing_field_counts_as_null() {
    check(&json!({"age": null}), &json!({}), true);
    check(&json!({"age": 1}), &json!({}), false);
    check(&json!({"age": {"$ne": 1}}), &json!({}), true);
    check(&json!({"home": {"city": null}}), &json!({"home": {}}), true);
    check(&json!({"home": {"city": null}}), &json!({}), false);
}

#[test]
fn nested_objects_match_partially_and_lists_exactly() {
    let value = json!({"home": {"city": "Rome", "zip": 7}, "tags": [1, {"a": 2, "b": 3}]});
    check(&json!({"home": {"city": "Rome"}}), &value, true);
    check(&json!({"home": {}}), &value, true);
    check(&json!({"home": {"city": "Oslo"}}), &value, false);
    check(&json!({"home": {"zip": {"$lt": 8}}}), &value, true);
    check(&json!({"home": {"$eq": {"city": "Rome"}}}), &value, false);
    check(&json!({"home": {"$eq": {"city": "Rome", "zip": 7.0}}}), &value, true);
    check(&json!({"home": {"$eq": {"city": "Rome", "zip": 7, "no": 8}}}), &value, false);
    check(&json!({"tags": [1, {"a": 2}]}), &value, true);
    check(&json!({"tags": [{"$gte": 1}, {}]}), &value, true);
    check(&json!({"tags": [1]}), &value, false);
    check(&json!({"tags": 1}), &value, false);
    check(&json!({"tags": {"$eq": [1, {"a": 2}]}}), &value, false);
    check(&json!({"tags": {"$ne": [1, {"a": 2}]}}), &value, true);
}

#[test]
fn operators_compare_numbers() {
    for (operator, less, same, more) in [
        ("$eq", false, true, false),
        ("$ne", true, false, true),
        ("$gt", false, false, true),
        ("$gte", false, true, true),
        ("$lt", true, false, false),
        ("$lte", true, true, false),
    ] {
        for (value, expect) in [(17, less), (18, same), (19, more)] {
            check(&json!({"age": {operator: 18}}), &json!({"age": value}), expect);
        }
    }
    check(&json!({"age": {"$gt": 18, "$lt": 20}}), &json!({"age": 19}), true);
    check(&json!({"age": {"$gt": 18, "$lt": 20}}), &json!({"age": 20}), false);
}

#[test]
fn ordering_compares_as_floats_then_as_strings() {
    check(&json!({"n": {"$gt": 9}}), &json!({"n": "10"}), true);
    check(&json!({"n": {"$gt": "9"}}), &json!({"n": "10"}), true);
    check(&json!({"n": {"$gte": 0.5}}), &json!({"n": true}), true);
    check(&json!({"day": {"$gte": "2024-02-01"}}), &json!({"day": "2024-10-01"}), true);
    check(&json!({"day": {"$lt": "2024-02-01"}}), &json!({"day": "2024-10-01"}), false);
    check(&json!({"n": {"$gt": 9007199254740992_u64}}), &json!({"n": 9007199254740993_u64}), true);
    check(&json!({"n": {"$gt": -1}}), &json!({"n": u64::MAX}), true);
}

#[test]
fn ordering_does_not_match_values_without_order() {
    for value in [json!(null), json!("old"), json!([20]), json!({"years": 20})] {
        for operator in ["$gt", "$gte", "$lt", "$lte"] {
            check(&json!({"age": {operator: 18}}), &json!({"age": value}), false);
        }
    }
    check(&json!({"age": {"$lt": 18}}), &json!({}), false);
    assert!(!Filter::gt("age", f64::NAN).matches(&json!({"age": 1})));
}

#[test]
fn typed_filters_equal_parsed_ones() {
    let typed = Filter::within("home", Filter::eq("city", "Rome"));
    assert_eq!(Filter::parse(&json!({"home": {"city": "Rome"}})), Ok(typed));

    let all = Filter::gt("a", 1).and(Filter::lte("b", 2)).and(Filter::ne("c", 3));
    assert!(all.matches(&json!({"a": 2, "b": 2, "c": 4})));
    assert!(!all.matches(&json!({"a": 1, "b": 2, "c": 4})));
    assert!(!all.matches(&json!({"a": 2, "b": 3, "c": 4})));
    assert!(!all.matches(&json!({"a": 2, "b": 2, "c": 3})));
    assert!(Filter::lt("a", 1).and(Filter::gte("b", "x")).matches(&json!({"a": 0, "b": "y"})));
}

#[test]
fn errors_contain_the_path_and_the_operator() {
    check_error(
        &json!({"home": {"rooms": [{"$in": [1]}]}}),
        "unknown operator `$in` for field `home.rooms[0]`; \
         the operators are $eq, $ne, $gt, $gte, $lt and $lte",
    );
    check_error(
        &json!({"age": {"$gt": 1, "max": 2}}),
        "unknown operator `max` for field `age`; \
         the operators are $eq, $ne, $gt, $gte, $lt and $lte",
    );
    check_error(
        &json!({"age": {"$lte": [1]}}),
        "operator `$lte` for field `age` needs a number, string or boolean, not an array",
    );
    check_error(&json!({"$gt": 1}), r#"operator `$gt` has no field; write {"field": {"$gt": ..}}"#);
    check_error(
        &json!(["age"]),
        r#"the filter is an array, not an object; write it as {"age": 18}"#,
    );
}
