//! Repair of tool arguments that are not valid JSON.

use std::{iter::Peekable, str::Chars};

use serde_json::{Map, Value};

/// Extracts the JSON object from malformed arguments.
///
/// Repairs only mistakes that leave no doubt about the arguments: a code fence or a tag around the object, surplus
/// closing braces, an object that was encoded twice, single quotes, keys without quotes, line breaks in strings,
/// trailing commas and the literals of Python. Never adds a value or a closing bracket. Returns `None` if the text
/// contains no complete object, or contains other text, such as a sentence.
pub(super) fn repair_arguments(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => return Some(object),
        Ok(Value::String(inner)) => return repair_arguments(&inner),
        Ok(_) => return None,
        Err(_) => {}
    }
    let (before, object) = text.split_at(text.find('{')?);
    let mut rest = object.chars().peekable();
    let json = strict_object(&mut rest)?;
    let after: String = rest.collect();
    if !may_precede(before.trim()) || !may_follow(&after) {
        return None;
    }
    serde_json::from_str(&json).ok()
}

/// Returns whether a text before an object does not change its meaning: nothing, the start of a code block with an
/// optional language, or a tag.
fn may_precede(text: &str) -> bool {
    let tag = || text.strip_prefix('<')?.strip_suffix('>');
    match text.strip_prefix("```") {
        Some(language) => language.is_empty() || is_name(language),
        None => text.is_empty() || tag().is_some_and(is_name),
    }
}

/// Returns whether a text after an object does not change its meaning: surplus braces, then nothing, the end of a code
/// block, or a closing tag.
fn may_follow(text: &str) -> bool {
    let text = text.trim_start_matches(|it: char| it == '}' || it.is_whitespace()).trim_end();
    let tag = || text.strip_prefix("</")?.strip_suffix('>');
    text.is_empty() || text == "```" || tag().is_some_and(is_name)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_alphanumeric() || it == '_' || it == '-')
}

/// Rewrites the object at the start of a text as strict JSON. Leaves the iterator after the object.
fn strict_object(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut json = String::new();
    let mut depth = 0_usize;
    while let Some(next) = chars.next() {
        match next {
            '"' | '\'' => json.push_str(&string(next, chars)?),
            ',' => {
                skip_whitespace(chars);
                if !matches!(chars.peek(), Some('}' | ']')) {
                    json.push(',');
                }
            }
            '{' | '[' => {
                depth += 1;
                json.push(next);
            }
            '}' | ']' => {
                depth -= 1;
                json.push(next);
                if depth == 0 {
                    return Some(json);
                }
            }
            _ if next.is_alphabetic() || next == '_' => json.push_str(&word(next, chars)?),
            _ if next.is_ascii_digit() || next == '-' => {
                json.push(next);
                take_while(chars, |it| it.is_ascii_digit() || "+-.eE".contains(it), &mut json);
            }
            ':' => json.push(':'),
            _ if next.is_whitespace() => json.push(' '),
            _ => return None,
        }
    }
    None
}

/// Reads the rest of a string as a JSON string. Returns `None` if the string does not end.
fn string(quote: char, chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = "\"".to_owned();
    loop {
        match chars.next()? {
            end if end == quote => {
                text.push('"');
                return Some(text);
            }
            '\\' => match chars.next()? {
                '\'' => text.push('\''),
                escaped => text.extend(['\\', escaped]),
            },
            '"' => text.push_str("\\\""),
            control if control.is_ascii_control() => {
                text.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => text.push(other),
        }
    }
}

/// Reads the rest of a word without quotes: a literal or a key. Returns `None` for other words, because the end of a
/// string without quotes is unknown.
fn word(first: char, chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut word = first.to_string();
    take_while(chars, |it| it.is_alphanumeric() || it == '_' || it == '-', &mut word);
    skip_whitespace(chars);
    match word.as_str() {
        _ if chars.peek() == Some(&':') => Some(Value::from(word.as_str()).to_string()),
        "true" | "True" => Some("true".to_owned()),
        "false" | "False" => Some("false".to_owned()),
        "null" | "None" => Some("null".to_owned()),
        _ => None,
    }
}

fn skip_whitespace(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|it| it.is_whitespace()).is_some() {}
}

fn take_while(chars: &mut Peekable<Chars<'_>>, belongs: impl Fn(char) -> bool, to: &mut String) {
    while let Some(next) = chars.next_if(|it| belongs(*it)) {
        to.push(next);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Value) {
        assert_eq!(repair_arguments(text).map(Value::Object), Some(expect), "{text}");
    }

    #[test]
    fn complete_objects_are_found_in_other_text() {
        for text in [
            "```json\n{\"city\": \"Rome\"}\n```",
            "{\"city\": \"Rome\"}</tool_call>",
            "\"{\\\"city\\\": \\\"Rome\\\"}\"",
            "{\"city\": \"Rome\"}}",
            "<tool_call>\n{\"city\": \"Rome\"}}\n</tool_call>",
            "```\n{city: \"Rome\"}\n```\n",
        ] {
            check(text, json!({"city": "Rome"}));
        }
    }

    #[test]
    fn unambiguous_syntax_errors_are_repaired() {
        check(
            "{'city': 'Rome', 'say': 'a \"b\"', 'it\\'s': 1}",
            json!({"city": "Rome", "say": "a \"b\"", "it's": 1}),
        );
        check(
            "{city: \"Rome\", days: [1, -2.5e3,],}",
            json!({"city": "Rome", "days": [1, -2.5e3]}),
        );
        check(
            "{\"a\": True, \"b\": None, \"c\": false}",
            json!({"a": true, "b": null, "c": false}),
        );
        check("{\"code\": \"a\nb\tc\"}", json!({"code": "a\nb\tc"}));
        check("{\"a\": \"\\u00e4 \\\" {\"}", json!({"a": "ä \" {"}));
    }

    #[test]
    fn ambiguous_arguments_are_not_repaired() {
        for text in [
            "", "[1]", "null", "{\"city\": \"Ro", "{\"city\": \"Rome\"", "{\"a\": {\"b\": 1}",
            "{\"city\": Rome}", "{\"city\": }", "{\"a\" 1}", "{'it': 'it's'}",
            "{\"a\": 1} {\"a\": 2}", "{\"a\": [1}", "{\"a\": 1 2}", "{\"a\": 1}, \"b\": 2}",
            "[\"Rome\", {\"unit\": \"C\"}]", "[\"Rome\", {unit: \"C\"}]",
            "weather(city=Rome, opts={\"unit\":\"C\"})", "'Rome', {\"unit\":\"C\"}",
            "3, {\"a\":1}", "{\"a\":1}, 2", "{\"a\":1} or", "Rome {\"a\":1}", "<a> <b>{\"a\":1}",
        ] {
            assert_eq!(repair_arguments(text), None, "{text}");
        }
    }
}
