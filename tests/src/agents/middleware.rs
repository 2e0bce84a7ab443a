//! Creates the built-in middleware of `graph-agents` from its description.

use std::{sync::Arc, time::Duration};

use graph_agents::{
    AgentError, Message, TokenCounter,
    middleware::{
        ClearToolUses, ContextEditing, DecisionKind, HumanInTheLoop, Middleware, ModelCallLimit,
        ModelFallback, ModelRetry, OnFailure, OnParsingFailure, Pii, PiiStrategy, RetryOptions,
        ReviewRule, Size, Summarization, TodoList, ToolCallLimit, ToolEmulator, ToolErrorAnswers,
        ToolLimitExit, ToolRetry, ToolSelector,
    },
    model::SharedModel,
};
use serde_json::Value;

use super::{
    custom::Custom,
    error::{classes, has_class},
    program::Env,
    shared_data::SharedData,
};
use crate::expr::is_true;

/// Creates middleware from its description.
pub(super) fn middleware(
    spec: &Value,
    shared: &Arc<SharedData>,
) -> Result<Arc<dyn Middleware>, AgentError> {
    let number = |key: &str| spec[key].as_u64();
    let exit = spec["exit_behavior"].as_str().unwrap_or_default();
    let model = |key: &str| -> Option<SharedModel> { Some(shared.model(spec[key].as_str()?)) };
    Ok(match spec["use"].as_str().unwrap_or_default() {
        "custom" => Arc::new(Custom::new(spec, shared)),
        "model_call_limit" => {
            let limit = ModelCallLimit::new(number("thread_limit"), number("run_limit"))?;
            Arc::new(if exit == "error" { limit.fail() } else { limit })
        }
        "tool_call_limit" => {
            let mut limit = ToolCallLimit::new(number("thread_limit"), number("run_limit"))?;
            if let Some(tool) = spec["tool_name"].as_str() {
                limit = limit.tool(tool);
            }
            Arc::new(limit.exit(match exit {
                "end" => ToolLimitExit::End,
                "error" => ToolLimitExit::Fail,
                _ => ToolLimitExit::Continue,
            }))
        }
        "model_fallback" => {
            let names = strings(&spec["models"]);
            Arc::new(ModelFallback::new(names.iter().map(|it| shared.model(it) as SharedModel)))
        }
        "model_retry" => Arc::new(ModelRetry::new(retry_options(spec))),
        "tool_retry" => {
            let retry = ToolRetry::new(retry_options(spec));
            Arc::new(match spec.get("tools") {
                Some(names) => retry.tools(strings(names)),
                None => retry,
            })
        }
        "tool_error" => tool_error(spec),
        "hitl" => Arc::new(human_in_the_loop(spec, shared)),
        "summarization" => Arc::new(summarization(spec, model("model").expect("a model"))),
        "pii" => Arc::new(pii(spec)?),
        "todo" => Arc::new(TodoList::new().system_prompt("TODO RULES")),
        "context_editing" => {
            let edits = spec["edits"].as_array().into_iter().flatten().map(clear_tool_uses);
            Arc::new(ContextEditing::new(edits).counter(counter(spec)))
        }
        "tool_selector" => Arc::new(tool_selector(spec, model("model"))),
        "tool_emulator" => {
            let emulator = ToolEmulator::new(model("model").expect("a model"));
            Arc::new(match spec.get("tools").filter(|it| !it.is_null()) {
                Some(names) => emulator.tools(strings(names)),
                None => emulator,
            })
        }
        other => panic!("unknown middleware {other}"),
    })
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

fn retry_options(spec: &Value) -> RetryOptions {
    let mut options = RetryOptions { initial_delay: Duration::ZERO, ..RetryOptions::default() };
    if let Some(retries) = spec["max_retries"].as_u64() {
        options.max_retries = retries as u32;
    }
    if let Some(classes) = classes(&spec["retry_on"]) {
        options.retry_on = Arc::new(move |error| has_class(error, &classes));
    }
    options.on_failure = match &spec["on_failure"] {
        Value::String(word) if word == "error" => OnFailure::Fail,
        Value::Object(function) => {
            let prefix = function["prefix"].as_str().unwrap_or_default().to_owned();
            OnFailure::AnswerWith(Arc::new(move |error| format!("{prefix}{error}")))
        }
        _ => OnFailure::Continue,
    };
    options
}

fn tool_error(spec: &Value) -> Arc<dyn Middleware> {
    let prefix = spec["prefix"].as_str().unwrap_or_default().to_owned();
    let classes = classes(&spec["classes"]);
    let answers = ToolErrorAnswers::new(move |error| {
        let covered = classes.as_ref().is_none_or(|it| has_class(error, it));
        covered.then(|| format!("{prefix}{error}"))
    });
    Arc::new(match spec.get("tools").filter(|it| !it.is_null()) {
        Some(names) => answers.tools(strings(names)),
        None => answers,
    })
}

fn human_in_the_loop(spec: &Value, shared: &Arc<SharedData>) -> HumanInTheLoop {
    let rules = spec["interrupt_on"].as_object().into_iter().flatten();
    let rules = rules.filter_map(|(tool, rule)| Some((tool.clone(), review_rule(rule, shared)?)));
    let mut review = HumanInTheLoop::new(rules);
    if let Some(prefix) = spec["description_prefix"].as_str() {
        review = review.description_prefix(prefix);
    }
    if let Some(notice) = spec.get("edit_notice") {
        review = review.edit_notice(notice.as_str().map(str::to_owned));
    }
    if spec["interrupt_mode"] == "per_call" { review.per_call() } else { review }
}

fn review_rule(rule: &Value, shared: &Arc<SharedData>) -> Option<ReviewRule> {
    if let Some(reviews) = rule.as_bool() {
        return reviews.then(ReviewRule::all);
    }
    let allowed = rule["allowed_decisions"].as_array().into_iter().flatten();
    let allowed = allowed.filter_map(|it| serde_json::from_value::<DecisionKind>(it.clone()).ok());
    let mut review = ReviewRule::allow(allowed);
    if let Some(description) = rule["description"].as_str() {
        review = review.description(description);
    }
    if let Some(condition) = rule.get("when").cloned() {
        let shared = shared.clone();
        review = review.when(move |call| {
            let mut env = Env::new(&shared, "when");
            env.args = call.args.clone();
            is_true(&env.evaluate(&condition))
        });
    }
    Some(review)
}

/// Returns the token counter that a description selects: one that counts characters, or the default estimate.
fn counter(spec: &Value) -> TokenCounter {
    match spec["count"].as_str() {
        Some("chars") => TokenCounter::new(|messages: &[Message]| {
            messages.iter().map(|it| it.text().chars().count()).sum()
        }),
        _ => TokenCounter::default(),
    }
}

fn size(kind: &str, value: &Value) -> Size {
    let count = value.as_u64().unwrap_or(0) as usize;
    match kind {
        "messages" => Size::Messages(count),
        "tokens" => Size::Tokens(count),
        _ => Size::Fraction(value.as_f64().unwrap_or(0.0)),
    }
}

fn pair(value: &Value) -> Option<Size> {
    Some(size(value[0].as_str()?, &value[1]))
}

fn all_of(value: &Value) -> Vec<Size> {
    value.as_object().into_iter().flatten().map(|(kind, value)| size(kind, value)).collect()
}

fn summarization(spec: &Value, model: SharedModel) -> Summarization {
    let mut summary =
        Summarization::new(model).prompt("Summarize: {messages}").counter(counter(spec));
    let trigger = &spec["trigger"];
    let triggers = match trigger {
        Value::Array(items) if pair(trigger).is_none() => items.clone(),
        Value::Null => Vec::new(),
        single => vec![single.clone()],
    };
    for trigger in &triggers {
        summary = match pair(trigger) {
            Some(size) => summary.trigger(size),
            None => summary.trigger_all(all_of(trigger)),
        };
    }
    match pair(&spec["keep"]) {
        Some(keep) => summary.keep(keep),
        None => summary,
    }
}

fn pii(spec: &Value) -> Result<Pii, AgentError> {
    let kind = spec["type"].as_str().unwrap_or_default();
    let mut pii = match spec["detector"].as_str() {
        Some(pattern) => Pii::with_pattern(kind, pattern)?,
        None => Pii::new(kind)?,
    };
    pii = pii.strategy(match spec["strategy"].as_str() {
        Some("mask") => PiiStrategy::Mask,
        Some("hash") => PiiStrategy::Hash,
        Some("block") => PiiStrategy::Block,
        _ => PiiStrategy::Redact,
    });
    let flag = |key: &str, default: bool| spec[key].as_bool().unwrap_or(default);
    Ok(pii
        .apply_to_input(flag("apply_to_input", true))
        .apply_to_output(flag("apply_to_output", false))
        .apply_to_tool_results(flag("apply_to_tool_results", false)))
}

fn clear_tool_uses(spec: &Value) -> ClearToolUses {
    let default = ClearToolUses::default();
    let number = |key: &str, default: usize| spec[key].as_u64().map_or(default, |it| it as usize);
    ClearToolUses {
        trigger: number("trigger", default.trigger),
        clear_at_least: number("clear_at_least", default.clear_at_least),
        keep: number("keep", default.keep),
        clear_tool_inputs: spec["clear_tool_inputs"] == true,
        exclude_tools: strings(&spec["exclude_tools"]),
        placeholder: spec["placeholder"].as_str().map_or(default.placeholder, str::to_owned),
    }
}

fn tool_selector(spec: &Value, model: Option<SharedModel>) -> ToolSelector {
    let mut selector = ToolSelector::new().always_include(strings(&spec["always_include"]));
    if let Some(model) = model {
        selector = selector.model(model);
    }
    if let Some(prompt) = spec["system_prompt"].as_str() {
        selector = selector.system_prompt(prompt);
    }
    if let Some(max) = spec["max_tools"].as_u64() {
        selector = selector.max_tools(max as usize);
    }
    if let Some(retries) = spec["max_retries"].as_u64() {
        selector = selector.max_retries(retries as u32);
    }
    selector.on_parsing_failure(match &spec["on_parsing_failure"] {
        Value::String(word) if word == "none" => OnParsingFailure::NoTools,
        Value::String(word) if word == "all" => OnParsingFailure::AllTools,
        names @ Value::Array(_) => OnParsingFailure::Tools(strings(names)),
        _ => OnParsingFailure::Fail,
    })
}
