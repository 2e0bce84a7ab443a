//! Random conversations with parallel tool calls are shortened in every supported way. No tool result loses its call.

use std::{collections::HashSet, ops::Range};

use fastrand::Rng;
use graph_agents::{
    Agent, AiMessage, Message, ScriptedModel, ToolCall, ToolMessage, TrimOptions,
    count_tokens_approximately,
    middleware::{Size, Summarization},
    trim_messages,
};
use serde_json::json;

fn seeds() -> Range<u64> {
    0..if test_support::is_nightly() { 5_000 } else { 150 }
}

fn text(rng: &mut Rng) -> String {
    "x".repeat(rng.usize(..40))
}

fn conversation(rng: &mut Rng) -> Vec<Message> {
    let mut messages = Vec::new();
    if rng.bool() {
        messages.push(Message::system(text(rng)));
    }
    for turn in 0..rng.usize(..6) {
        messages.push(Message::human(text(rng)));
        for round in 0..rng.usize(..3) {
            messages.extend(tool_round(rng, &format!("{turn}-{round}")));
        }
        messages.push(Message::ai(text(rng)));
    }
    messages
}

/// Returns a message with parallel calls, followed by the results in any order. A human message may occur between two
/// results.
fn tool_round(rng: &mut Rng, name: &str) -> Vec<Message> {
    let call = |n: usize| ToolCall::new("look", json!({}), format!("{name}-{n}"));
    let mut calls: Vec<_> = (0..=rng.usize(..4)).map(call).collect();
    let message = AiMessage { tool_calls: calls.clone(), ..AiMessage::new(text(rng)) };
    let mut messages = vec![Message::from(message)];
    rng.shuffle(&mut calls);
    for call in &calls {
        messages.push(ToolMessage::success(call, text(rng)).into());
        if rng.u8(..6) == 0 {
            messages.push(Message::human(text(rng)));
        }
    }
    messages
}

/// Returns whether a tool result has no call before it.
fn has_orphaned_result(messages: &[Message]) -> bool {
    let mut calls = HashSet::new();
    messages.iter().any(|message| {
        calls.extend(message.as_ai().into_iter().flat_map(|it| &it.tool_calls).map(ToolCall::id));
        message.as_tool().is_some_and(|it| !calls.contains(it.tool_call_id.as_str()))
    })
}

/// Returns whether a conversation that starts with `n_system` system messages meets the options.
fn is_valid(messages: &[Message], n_system: usize, options: &TrimOptions) -> bool {
    let starts_on_human = matches!(messages.get(n_system), Some(Message::Human(_)));
    options.max_messages.is_none_or(|max| messages.len() <= max)
        && options.max_tokens.is_none_or(|max| count_tokens_approximately(messages) <= max)
        && (starts_on_human || !options.start_on_human)
        && !has_orphaned_result(messages)
}

#[test]
fn trimming_keeps_the_longest_part_that_fits_and_separates_no_call_from_its_result() {
    for seed in seeds() {
        let mut rng = Rng::with_seed(seed);
        let messages = conversation(&mut rng);
        let max_messages = Some(rng.usize(..=messages.len() + 1));
        let max_tokens = Some(rng.usize(..=count_tokens_approximately(&messages) + 1));
        for (max_messages, max_tokens) in
            [(max_messages, None), (None, max_tokens), (max_messages, max_tokens), (None, None)]
        {
            for start_on_human in [false, true] {
                let options = TrimOptions {
                    max_messages,
                    max_tokens,
                    start_on_human,
                    ..TrimOptions::default()
                };
                check(&messages, &options, seed);
            }
        }
    }
}

fn check(messages: &[Message], options: &TrimOptions, seed: u64) {
    let context = format!("seed {seed}, {options:?}");
    let kept = trim_messages(messages, options);
    let n_system = usize::from(matches!(messages.first(), Some(Message::System(_))));
    let (system, rest) = messages.split_at(n_system);
    assert_eq!(kept[..n_system], *system, "{context}");
    assert!(rest.ends_with(&kept[n_system..]), "{context}: {kept:?}");
    assert!(kept.len() == n_system || is_valid(&kept, n_system, options), "{context}: {kept:?}");
    for start in 0..messages.len() - kept.len() {
        let longer = [system, &rest[start..]].concat();
        assert!(!is_valid(&longer, n_system, options), "{context}: {kept:?}");
    }
}

#[tokio::test]
async fn summarization_separates_no_call_from_its_result() {
    for seed in seeds() {
        let mut rng = Rng::with_seed(seed);
        let mut messages = conversation(&mut rng);
        messages.push(Message::human("last"));
        let keep = match rng.bool() {
            true => Size::Messages(rng.usize(1..=messages.len())),
            false => Size::Tokens(rng.usize(1..=count_tokens_approximately(&messages))),
        };
        let summaries = ScriptedModel::new([AiMessage::new("summary")]);
        let middleware = Summarization::new(summaries).trigger(Size::Messages(1)).keep(keep);
        let agent = Agent::new(ScriptedModel::new([AiMessage::new("ok")])).middleware(middleware);
        let outcome = agent.compile().unwrap().run(messages).await.unwrap();
        let context = format!("seed {seed}, {keep:?}: {:?}", outcome.messages);
        assert!(!has_orphaned_result(&outcome.messages), "{context}");
        assert_eq!(outcome.messages[outcome.messages.len() - 2].text(), "last", "{context}");
    }
}
