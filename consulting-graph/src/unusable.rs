//! Recognises answers that a run cannot use. A call with such an answer counts as failed, and a resumed run makes it
//! again.

use llm::{Finish, Message, Recording, Request, Response, Role};

use crate::{config::Config, finding, moves, score::MakerScore};

/// Maximum length of an answer, in bytes. It is far above the token limits of the agents, and low enough that the
/// transcript of a whole debate fits into one call.
const MAX_ANSWER_BYTES: usize = 128 << 10;

/// Maximum length of a refusal, in bytes. A longer text argues, even if it starts like a refusal.
const MAX_REFUSAL_BYTES: usize = 600;

/// Starts of sentences with which models refuse to answer. An apology may precede them.
const REFUSALS: [&str; 6] =
    ["i can't ", "i cannot ", "i can not ", "i won't ", "i am unable to ", "i am not able to "];

/// Words that follow a start in [`REFUSALS`] if the sentence refuses the request, as opposed to, for example, "I cannot
/// accept this number".
const REFUSED_ACTIONS: [&str; 14] = [
    "help", "assist", "comply", "provide", "answer", "respond", "fulfil", "do that", "do this",
    "discuss", "engage", "create", "generate", "continue with this",
];

/// Returns why an answer cannot be used: it is empty, a refusal, or too long. Returns `None` if it can be used.
pub(crate) fn problem(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        Some("the answer is empty".to_owned())
    } else if text.len() > MAX_ANSWER_BYTES {
        let (size, limit) = (text.len() >> 10, MAX_ANSWER_BYTES >> 10);
        Some(format!("the answer is {size} KiB long, more than the limit of {limit} KiB"))
    } else if is_refusal(text) {
        let start: String = text.trim().chars().take(80).collect();
        Some(format!("the model refused to answer: {start:?}"))
    } else {
        None
    }
}

/// Returns whether a text is a refusal: a short text whose first or second sentence says that the model does not do
/// what it was asked for.
fn is_refusal(text: &str) -> bool {
    if text.len() > MAX_REFUSAL_BYTES {
        return false;
    }
    let plain = text.to_lowercase().replace('\u{2019}', "'").replace("i'm ", "i am ");
    let refuses = |start: usize| {
        let rest = &plain[start..];
        let action = REFUSALS.iter().find_map(|it| rest.strip_prefix(it));
        action.is_some_and(|it| REFUSED_ACTIONS.iter().any(|action| it.starts_with(action)))
    };
    let opening =
        plain.split_terminator(['.', '!', '?', '\n']).take(2).map(str::len).sum::<usize>();
    plain.match_indices("i ").take_while(|(at, _)| *at <= opening).any(|(at, _)| refuses(at))
}

/// Returns the recording, set up to make the calls again whose answers could not be used: those with a
/// [`problem`], and those that are not what the request asks for. An unreadable answer that the model replaced with a
/// readable one on a second request, or with single findings, is kept.
pub(crate) fn repeat_unusable(recording: Recording, config: &Config) -> Recording {
    let calls: Vec<(Request, String)> =
        recording.answered_calls().map(|(request, it)| (request, it.text())).collect();
    let is_corrected = |request: &Request, text: &str| {
        calls.iter().any(|(later, corrected)| {
            (is_follow_up(later, request, text) || is_single_finding_instead(later, request))
                && !is_unusable(later, corrected, config)
        })
    };
    recording.repeat(|request, response| {
        let text = response.text();
        is_unusable_narration(request, response, config)
            || (is_unusable(request, &text, config) && !is_corrected(request, &text))
    })
}

fn is_unusable_narration(request: &Request, response: &Response, config: &Config) -> bool {
    let synthesizers = [&config.synthesizers.financial, &config.synthesizers.news];
    let system = request.system.as_deref().unwrap_or_default();
    let is_narration = synthesizers.iter().any(|it| system.starts_with(it.system_prompt.trim()));
    let is_cut = response.finish == Finish::Length;
    is_narration && narration_problem(&response.text(), data_bytes(request), is_cut).is_some()
}

fn is_unusable(request: &Request, text: &str, config: &Config) -> bool {
    problem(text).is_some()
        || match schema_name(request) {
            "Scores" => MakerScore::parse(text, &config.metric_ids()).is_none(),
            "FindingsDraft" => finding::read(text).findings.is_empty(),
            "SingleFinding" => finding::read_single(text).is_none(),
            "MovesDraft" => moves::read(text).len() < config.moves_per_analyst.into(),
            _ => false,
        }
}

/// Returns whether `later` asks the model to correct its answer `text` to `request`.
fn is_follow_up(later: &Request, request: &Request, text: &str) -> bool {
    let n = request.messages.len();
    let is_answer = |it: &Message| it.role == Role::Assistant && it.text() == text;
    later.messages.get(..n) == Some(&request.messages)
        && later.messages.get(n).is_some_and(is_answer)
}

/// Returns whether `later` asks for a single finding of the document whose findings `request` asks for.
fn is_single_finding_instead(later: &Request, request: &Request) -> bool {
    (schema_name(later), schema_name(request)) == ("SingleFinding", "FindingsDraft")
        && later.messages.first() == request.messages.first()
}

fn schema_name(request: &Request) -> &str {
    request.schema.as_ref().map_or("", |it| it.name.as_str())
}

/// Minimum length of a narration, in bytes.
const MIN_NARRATION_BYTES: usize = 200;

/// Returns the length of the data that a request for a narration contains.
pub(crate) fn data_bytes(request: &Request) -> usize {
    request.messages.first().map_or(0, |it| it.text().len())
}

/// Returns why a narration of data with this length cannot be used. Returns `None` if it can be used.
pub(crate) fn narration_problem(text: &str, data_bytes: usize, is_cut: bool) -> Option<String> {
    // Four times as long as the data, because the data of a small company may be a few lines.
    let max_bytes = 4 * data_bytes + 20 * MIN_NARRATION_BYTES;
    if is_cut {
        Some("the text ends at the token limit of the model".to_owned())
    } else if !(MIN_NARRATION_BYTES..=max_bytes).contains(&text.len()) {
        let bytes = text.len();
        Some(format!("the text has {bytes} bytes, which does not fit data of {data_bytes} bytes"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn refusals_are_recognised() {
        for text in [
            "I'm sorry, but I can't help with that.",
            "I\u{2019}m sorry. I cannot assist with this request.",
            "I am unable to provide financial advice.",
            "Sorry! I won't answer that.",
        ] {
            assert!(problem(text).is_some_and(|it| it.contains("refused")), "{text}");
        }
        for text in [
            "I cannot accept the margin of 4% [F1-02]; the critic is wrong about it.",
            "The board can't help itself: it buys.",
            "No. I can provide three reasons.",
            &format!("I can't help with that. {}", "The plan is sound. ".repeat(40)),
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
        assert!(problem(" \n").is_some_and(|it| it.contains("empty")));
        assert!(problem(&"x".repeat(1 << 20)).is_some_and(|it| it.contains("1024 KiB")));
    }
}
