//! Prompts for the layers of the pipeline before the debates.

use llm::{Message, Request};

use super::request::{mark_cacheable, request_for};
use crate::{
    config::Persona,
    data::{Subject, Ticker},
    fence::Fence,
    finding::{FindingDraft, FindingsDraft, Inference, SingleFinding},
    moves::{MoveViolation, MovesDraft},
};

/// Builds the request for one of the two source documents, based on the company's data.
pub(crate) fn synthesizer(
    persona: &Persona,
    ticker: &Ticker,
    subject: Subject,
    data: &str,
    fence: &Fence,
) -> Request {
    let name = match subject {
        Subject::Financial => "financial document",
        Subject::Trend => "document on news and trends",
    };
    let task = format!(
        "Write the {name} for {ticker} from the data above, in Markdown, in about two pages.\n\
         - Keep every section with its heading, in the given order. If a section says that something is not available, \
         repeat that; do not fill the gap.\n\
         - Keep the tables and every number with its unit exactly as given. Add no numbers.\n\
         - Where signals contradict each other, present both sides. Do not resolve the contradiction and do not \
         recommend anything.\n\
         - If there is a notice that the data is synthetic, keep it at the top."
    );
    let material = Message::user(fence.wrap("data", data));
    task_request(persona, fence, material, task)
}

/// Position of a chunk in its document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub number: usize,
    /// The total number of chunks.
    pub of: usize,
}

/// Builds the request for the findings from a document or from a chunk of a document.
pub(crate) fn inference(
    persona: &Persona,
    ticker: &Ticker,
    inference: Inference,
    document: &str,
    chunk: Option<Chunk>,
    fence: &Fence,
) -> Request {
    let kinds = match inference {
        Inference::F1 => {
            "growth, margin, liquidity, leverage, capital_return, efficiency, guidance"
        }
        Inference::F2 => {
            "sentiment, competitor, regulation, event, analyst, prediction, or, for the company's own figures, growth, \
             margin, liquidity, leverage, capital_return, efficiency"
        }
    };
    let wanted = match chunk {
        None => {
            "as 8 to 14 findings, or fewer if it contains less, most important first".to_owned()
        }
        Some(Chunk { number, of }) => format!(
            "in part {number} of {of}, which is all you see of it, as up to 4 findings, most important first; none if \
             the part shows nothing"
        ),
    };
    let task = format!(
        "Say what this document shows about {ticker}, {wanted}.\n\
         - A finding is one claim in one or two sentences, with the numbers exactly as the document states them. All \
         ratios you need are in the document; do not compute any yourself.\n\
         - For each finding, give the evidence: the name of the section, and the cells or the sentence, quoted verbatim.\n\
         - For each finding, give its direction (positive, negative or mixed), its strength (1 weak, 2 solid, 3 \
         decisive) and its kind (one of {kinds}, or other).\n\
         - Do not recommend anything: no imperatives, no `should`, no `must`.\n\
         - Under tensions, list findings that contradict each other, by their positions in your list, counted from \
         1.\n\n\
         {}",
        json_instruction::<FindingsDraft>()
    );
    let material = document_message(inference, document, fence);
    task_request(persona, fence, material, task)
}

/// Builds the second request for findings, after an answer that could not be read.
pub(crate) fn inference_retry(first: &Request, answer: &str) -> Request {
    first.clone().message(Message::assistant(answer)).message(Message::user(
        "No findings could be read from this answer. Give all findings again, only as JSON of the schema.",
    ))
}

/// Last sentences of the request for the findings that are missing in a list.
const REMAINING: &str = "Other findings of the same document are missing in this list. Give only the missing ones, only as \
                         JSON of the schema. If there are none, give an empty list of findings.";

/// Builds the request for the findings that are missing in a list that is cut off or too short. `first` is the request
/// for the list, and `known` contains the findings in it.
pub(crate) fn remaining_findings(
    first: &Request,
    known: &[FindingDraft],
    fence: &Fence,
) -> Request {
    let claims: Vec<String> = known.iter().map(|it| format!("- {}", it.claim)).collect();
    first.clone().message(Message::user(format!(
        "These findings are known:\n\n{}\n\n{REMAINING}",
        fence.wrap("known findings", &claims.join("\n"))
    )))
}

/// Returns whether a request asks for the findings that are missing in a list.
pub(crate) fn asks_for_remaining_findings(request: &Request) -> bool {
    request.prompt().ends_with(REMAINING)
}

/// Builds the request for one finding from a document or from a chunk of a document. It is shorter and simpler than
/// [`inference`], for models that cannot write a list. `known` contains the findings that the model has already given.
pub(crate) fn single_finding(
    persona: &Persona,
    ticker: &Ticker,
    inference: Inference,
    document: &str,
    known: &[FindingDraft],
    fence: &Fence,
) -> Request {
    let claims: Vec<String> = known.iter().map(|it| format!("- {}", it.claim)).collect();
    let wanted = match claims.as_slice() {
        [] => format!("State one fact that this document shows about {ticker}."),
        _ => format!(
            "These facts are known:\n\n{}\n\nState one other fact that the document shows about {ticker}.",
            fence.wrap("known facts", &claims.join("\n"))
        ),
    };
    let task = format!(
        "{wanted} Write one sentence, with the numbers exactly as in the document. Name the section, and quote the cells \
         or the sentence verbatim. Say whether the fact is positive, negative or mixed for the company. Do not recommend \
         anything. If there is no such fact, leave the claim empty.\n\n{}",
        json_instruction::<SingleFinding>()
    );
    let material = document_message(inference, document, fence);
    task_request(persona, fence, material, task)
}

/// Builds a request for a task that concerns the material before it.
fn task_request(persona: &Persona, fence: &Fence, material: Message, task: String) -> Request {
    let mut messages = vec![material];
    mark_cacheable(&mut messages);
    messages.push(Message::user(task));
    request_for(persona, fence, messages)
}

fn document_message(inference: Inference, document: &str, fence: &Fence) -> Message {
    Message::user(fence.wrap(&format!("document for {inference}"), document))
}

/// Builds the request to an analyst for moves.
pub(crate) fn analyst(
    persona: &Persona,
    ticker: &Ticker,
    n_moves: u16,
    f1: &str,
    f2: &str,
    fence: &Fence,
) -> Request {
    let sides = if f2.is_empty() {
        "from F1, since there is no data for F2"
    } else {
        "from both F1 and F2"
    };
    let task = format!(
        "Propose {n_moves} strategic moves for {ticker} from your perspective: one of low, one of medium and one of \
         high risk.\n\
         - Each move must differ in kind from the others and be specific to this company. Generic advice is \
         worthless.\n\
         - Argue each move in at least three paragraphs that lead from the findings to the move. Cite the findings you \
         use, such as [F1-07]: at least three, {sides}, and only existing ones.\n\
         - Every number you state about the company must be in a finding you cite. Your own numbers belong in steps, \
         cost, KPI and falsifiers.\n\
         - Give the steps with owner and timeframe, cost and resources, the downside and its mitigation, what would \
         show that the move is wrong, and the KPI.\n\n\
         {}",
        json_instruction::<MovesDraft>()
    );
    let material = format!("{}\n\n{}", fence.wrap("F1", f1), fence.wrap("F2", f2));
    task_request(persona, fence, Message::user(material), task)
}

/// Builds the second request to an analyst, which lists the defects of the first answer.
pub(crate) fn analyst_retry(first: &Request, answer: &str, problems: &[MoveViolation]) -> Request {
    let listed: String = problems.iter().map(|it| format!("- {it}\n")).collect();
    first.clone().message(Message::assistant(answer)).message(Message::user(format!(
        "This answer cannot be used yet:\n{listed}\nGive all moves again, in the same form, with these points corrected."
    )))
}

/// Returns the instruction to answer with JSON that matches the schema of `T`.
fn json_instruction<T: schemars::JsonSchema>() -> String {
    let schema = serde_json::to_string(&schemars::schema_for!(T)).unwrap_or_default();
    format!("Answer only with JSON of this schema:\n{schema}")
}
