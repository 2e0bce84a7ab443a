//! Recognises answers that a run cannot use. A call with such an answer counts as failed, and a resumed run makes it
//! again.

mod refusal;

use llm::{Finish, Message, Recording, Request, Response, Role};

use crate::{
    config::Config,
    finding, moves, prompt,
    score::{MakerScore, complete_part},
};

use refusal::is_refusal;

/// Maximum length of an answer, in bytes. It is far above the token limits of the agents, and low enough that the
/// transcript of a whole debate fits into one call.
const MAX_ANSWER_BYTES: usize = 128 << 10;

/// Minimum length of a prompt that an answer may not repeat, in bytes. A shorter one may be quoted.
const MIN_PROMPT_BYTES: usize = 40;

/// Returns why an answer cannot be used: it has no words, is too long, is a refusal, or repeats the prompt. Returns
/// `None` if it can be used.
pub(crate) fn problem(request: &Request, text: &str) -> Option<String> {
    if !text.chars().any(char::is_alphanumeric) {
        Some("the answer is empty".to_owned())
    } else if text.len() > MAX_ANSWER_BYTES {
        let (size, limit) = (text.len() >> 10, MAX_ANSWER_BYTES >> 10);
        Some(format!("the answer is {size} KiB long, more than the limit of {limit} KiB"))
    } else if is_refusal(text, request.schema.is_some()) {
        let start: String = text.trim().chars().take(80).collect();
        Some(format!("the model refused to answer: {start:?}"))
    } else if repeats_prompt(request, text) {
        Some("the answer repeats the prompt".to_owned())
    } else {
        None
    }
}

fn repeats_prompt(request: &Request, text: &str) -> bool {
    let prompt = request.prompt();
    let repeats = |it: &str| it.len() >= MIN_PROMPT_BYTES && text.contains(it);
    repeats(prompt.trim()) || request.system.as_deref().is_some_and(|it| repeats(it.trim()))
}

/// Configures a recording to repeat the calls whose answers could not be used: answers with a [`problem`], and answers
/// that do not fit the request. Keeps an unreadable answer if a later request obtained a readable one or single
/// findings in its place, and an incomplete list of findings if a later answer completed it.
pub(crate) fn repeat_unusable(recording: Recording, config: &Config) -> Recording {
    let calls: Vec<(Request, Response)> = recording.answered_calls().collect();
    let is_corrected = |request: &Request, text: &str| {
        calls.iter().any(|(later, corrected)| {
            (is_follow_up(later, request, text)
                || is_single_finding_instead(later, request)
                || asks_for_rest(later, request))
                && !is_unusable(later, corrected, config)
        })
    };
    recording.repeat(|request, response| {
        is_unusable_narration(request, response, config)
            || (is_unusable(request, response, config) && !is_corrected(request, &response.text()))
    })
}

fn is_unusable_narration(request: &Request, response: &Response, config: &Config) -> bool {
    let synthesizers = [&config.synthesizers.financial, &config.synthesizers.news];
    let system = request.system.as_deref().unwrap_or_default();
    let is_narration = synthesizers.iter().any(|it| system.starts_with(it.system_prompt.trim()));
    let is_cut = response.finish == Finish::Length;
    is_narration && narration_problem(&response.text(), data_bytes(request), is_cut).is_some()
}

fn is_unusable(request: &Request, response: &Response, config: &Config) -> bool {
    let text = &response.text();
    problem(request, text).is_some()
        || match schema_name(request) {
            "Scores" => {
                let text = complete_part(text, response.finish == Finish::Length);
                MakerScore::parse(text, &config.metric_ids()).is_none()
            }
            "FindingsDraft" if response.finish == Finish::Length || finding::is_partial(text) => {
                true
            }
            "FindingsDraft" if prompt::asks_for_remaining_findings(request) => {
                finding::read_json(text).is_none() && !finding::is_empty_list(text)
            }
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

/// Returns whether `later` asks for the findings that are missing in the list that `request` asks for.
fn asks_for_rest(later: &Request, request: &Request) -> bool {
    prompt::asks_for_remaining_findings(later)
        && later.messages.split_last().is_some_and(|it| it.1 == request.messages)
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
    use llm::Request;

    use super::problem;

    #[test]
    fn unusable_answers_are_recognised() {
        let prompt = "Defend the move against the critic, with at least three findings.";
        let long = "x".repeat(1 << 20);
        for (text, expected) in [
            (" \n", Some("empty")),
            ("\u{200b}\u{0}\u{feff}\u{202e}", Some("empty")),
            ("...", Some("empty")),
            (&*long, Some("1024 KiB")),
            ("I'm sorry, but I can't help with that.", Some("refused")),
            (&*format!("User: {prompt}\n"), Some("repeats the prompt")),
            ("The margin of 4% [F1-02] is enough.", None),
        ] {
            let found = problem(&Request::new(prompt), text);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.zip(expected).is_none_or(|(it, part)| it.contains(part)), "{expected:?}");
        }
    }
}
