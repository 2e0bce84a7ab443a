//! Builds every prompt with placeholder input. The hashes of these samples identify the prompt texts of a program
//! version.

use llm::Request;

use super::{
    brief::Brief,
    debate::{critic_opening, critic_reply, maker_reply, summary},
    layers::{
        Chunk, analyst, analyst_retry, inference, inference_retry, remaining_findings,
        single_finding, synthesizer,
    },
    scoring::{baseline, repair, score},
};
use crate::{
    config::{Metric, Persona},
    data::{Subject, Ticker},
    fence::Fence,
    finding::{FindingDraft, Inference, SingleFinding},
    moves::MoveViolation,
    transcript::{Speaker, append_to_log, rounds, whole},
};

/// Returns all prompts with placeholder input, by name.
pub(crate) fn samples() -> Vec<(&'static str, Request)> {
    let fence = Fence::new("0");
    let ticker = Ticker::parse("NONE").expect("a valid ticker");
    let persona = |id: &str| Persona {
        id: id.to_owned(),
        name: "Sample".to_owned(),
        system_prompt: "You are a sample.".to_owned(),
    };
    let (one, critic) = (persona("one"), persona("critic"));
    let [id, name, question] = ["worth", "Worth", "Is it worth it?"].map(str::to_owned);
    let metrics = [Metric { id, name, question }];
    let [document, evidence] = ["A move.", "A finding."].map(str::to_owned);
    let brief = Brief { ticker: ticker.to_string(), move_id: "m1".to_owned(), document, evidence };
    let log = append_to_log(&[], Speaker::Critic, "No.", 1);
    let log = rounds(&append_to_log(&log, Speaker::DecisionMaker(one.id.clone()), "Yes.", 1));
    let summary = summary(&brief, &fence, &log);
    let log = whole(&log);
    let chunk = Some(Chunk { number: 1, of: 2 });
    let findings = |of, chunk| inference(&one, &ticker, of, "A document.", chunk, &fence);
    let single = SingleFinding { claim: "A fact.".to_owned(), ..SingleFinding::default() };
    let known = [FindingDraft::from(single)];
    let moves = analyst(&one, &ticker, 3, "F1", "F2", &fence);
    let problems = [MoveViolation::TooFewCitations(1, 0)];
    let scores = score(&one, &brief, &fence, &log, &metrics, 2);
    vec![
        ("synthesizer financial", synthesizer(&one, &ticker, Subject::Financial, "Data.", &fence)),
        ("synthesizer trend", synthesizer(&one, &ticker, Subject::Trend, "Data.", &fence)),
        ("inference F1", findings(Inference::F1, None)),
        ("inference F2", findings(Inference::F2, None)),
        ("inference chunk", findings(Inference::F1, chunk)),
        ("inference again", inference_retry(&findings(Inference::F1, None), "Hm.")),
        ("inference remaining", remaining_findings(&findings(Inference::F1, None), &known, &fence)),
        (
            "inference single",
            single_finding(&one, &ticker, Inference::F1, "A document.", &known, &fence),
        ),
        ("analyst", moves.clone()),
        ("analyst again", analyst_retry(&moves, "Hm.", &problems)),
        ("critic opening", critic_opening(&critic, &brief, &fence)),
        ("critic reply", critic_reply(&critic, &brief, &fence, &one, &log, 2)),
        ("decision maker reply", maker_reply(&one, &brief, &fence, &log, 1)),
        ("summary", summary),
        ("score", scores.clone()),
        ("score before", baseline(&one, &brief, &fence, &metrics)),
        ("score again", repair(&scores, "Hm.", &metrics)),
    ]
}
