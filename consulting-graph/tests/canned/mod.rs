//! A model with fixed answers to the prompts of a run, for tests in which a provider answers over HTTP. The offline
//! board cannot be that provider, because it answers from typed data that is attached to a request and not sent over
//! HTTP.

use llm::{Llm, Reply, Request, Scripted};
use serde_json::{Value, json};

pub(crate) fn model() -> Llm {
    Llm::new(Scripted::new("board", answer))
}

pub(crate) fn answer(request: &Request) -> Reply {
    let prompt = request.prompt();
    if prompt.contains("Say what this document shows") {
        Reply::from(json!({ "findings": (1..=8).map(finding).collect::<Vec<_>>() }))
    } else if prompt.contains("These findings are known") {
        let known = u8::try_from(prompt.matches("Observation ").count()).expect("few findings");
        Reply::from(json!({ "findings": (known + 1..=8).map(finding).collect::<Vec<_>>() }))
    } else if prompt.contains("State one ") {
        let known = prompt.matches("Observation ").count();
        let other = (1..=8).nth(known).map(finding);
        Reply::from(other.unwrap_or_else(|| json!({ "claim": "" })))
    } else if prompt.contains("strategic moves") {
        Reply::from(json!({ "moves": [a_move()] }))
    } else if prompt.contains("Metrics:") {
        let scores = json!({ "impact": 7, "feasibility": 6, "risk_adjusted_return": 5,
            "strategic_alignment": 8, "reasoning": "It held up." });
        Reply::from(scores)
    } else if prompt.starts_with("Write the ") {
        Reply::from("The data shows a company that earns what it spends. ".repeat(8))
    } else {
        let words = prompt.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        Reply::from(format!("My answer to \u{201c}{words}\u{201d} rests on [F1-01]."))
    }
}

fn finding(number: u8) -> Value {
    json!({ "claim": format!("Observation {number} of the document."), "strength": 2 })
}

fn a_move() -> Value {
    json!({
        "title": "Run a small pilot", "risk_level": "low", "thesis": "A pilot shows whether it works.",
        "why_now": "The window is open.", "reasoning": ["One [F1-01].", "Two [F1-02].", "Three [F2-01]."],
        "citations": ["F1-01", "F1-02", "F2-01"],
        "steps": [{ "action": "Name an owner", "owner": "CEO", "timeframe": "within 6 weeks" }],
        "cost": "$2m", "downside": "It may be inconclusive.", "mitigation": "It has a fixed end.",
        "falsifiers": ["No change after a year"], "kpi": "The target figure",
    })
}
