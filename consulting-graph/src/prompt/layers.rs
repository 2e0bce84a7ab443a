//! What the layers before the debate are asked.

use llm::{Message, Request};

use super::{asking, keep};
use crate::{
    config::Persona,
    data::{Subject, Ticker},
    fence::Fence,
    finding::{FindingsDraft, Inference},
    moves::{MoveProblem, MovesDraft},
};

/// Asks for one of the two documents of the first layer, from what is known of the company.
pub fn synthesizer(
    persona: &Persona,
    ticker: &Ticker,
    subject: Subject,
    data: &str,
    fence: &Fence,
) -> Request {
    let name = match subject {
        Subject::Financial => "financial document",
        Subject::Trend => "document on news and sentiment",
    };
    let task = format!(
        "Write the {name} for {ticker} from the data above, in markdown, in about two pages.\n\
         - Keep every section with its heading, in the order given; where a section says that something is not \
         available, say that too and fill no gap.\n\
         - Keep the tables, and every number with its unit, exactly as given. Add no number.\n\
         - Where signals contradict each other, show both; settle nothing and recommend nothing.\n\
         - Keep a note that the data are synthetic, where there is one, in its place at the top."
    );
    let mut messages = vec![Message::user(fence.around("data", data))];
    keep(&mut messages);
    messages.push(Message::user(task));
    asking(persona, fence, messages)
}

/// A piece of a document.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Which, from 1.
    pub number: usize,
    /// Of so many.
    pub of: usize,
}

/// Asks for the findings from a document, or from a piece of it.
pub fn inference(
    persona: &Persona,
    ticker: &Ticker,
    inference: Inference,
    document: &str,
    piece: Option<Piece>,
    fence: &Fence,
) -> Request {
    let kinds = match inference {
        Inference::F1 => {
            "growth, margin, liquidity, leverage, capital_return, efficiency, guidance"
        }
        Inference::F2 => "sentiment, competitor, regulation, event, analyst, prediction",
    };
    let wanted = match piece {
        None => "as 8 to 14 findings, the weightiest first".to_owned(),
        Some(Piece { number, of }) => format!(
            "in part {number} of {of}, which is all you see of it, as up to 4 findings, the weightiest first; none, \
             where the part shows nothing"
        ),
    };
    let task = format!(
        "Say what this document shows about {ticker}, {wanted}.\n\
         - A finding is one claim in one or two sentences, with its numbers as the document writes them. All ratios you \
         need are computed in the document; compute none yourself.\n\
         - Give for each the evidence: the section's name and the cells or the sentence, quoted as they stand.\n\
         - Give for each its direction (positive, negative or mixed), its strength (1 a hint, 2 solid, 3 decisive) and its \
         kind (one of {kinds}, other).\n\
         - Recommend nothing: no orders, no `should`, no `must`.\n\
         - Name under tensions the findings that contradict each other, by their places in your list from 1.\n\n\
         {}",
        json_only::<FindingsDraft>()
    );
    let mut messages =
        vec![Message::user(fence.around(&format!("document for {inference}"), document))];
    keep(&mut messages);
    messages.push(Message::user(task));
    asking(persona, fence, messages)
}

/// Asks for findings again that could not be read.
pub fn inference_again(first: &Request, answer: &str) -> Request {
    first.clone().message(Message::assistant(answer)).message(Message::user(
        "No finding can be read from this. Give all findings again, only as JSON of the schema.",
    ))
}

/// Asks an analyst for moves.
pub fn analyst(
    persona: &Persona,
    ticker: &Ticker,
    n_moves: u16,
    f1: &str,
    f2: &str,
    fence: &Fence,
) -> Request {
    let sides = if f2.is_empty() {
        "from F1, since the source has nothing for F2"
    } else {
        "from both F1 and F2"
    };
    let task = format!(
        "Propose {n_moves} strategic moves for {ticker}, seen through your lens: of low, of medium and of high risk.\n\
         - Each move is different in kind from the others and specific to this company; what would fit any company is \
         worthless.\n\
         - Argue each in at least three paragraphs that lead from the findings to the move. Cite findings where you use \
         them, like [F1-07]; use at least three, {sides}, and only such as are there.\n\
         - Every number you state about the company stands in a finding you cite. Numbers of your own belong to steps, \
         cost, KPI and falsifiers.\n\
         - Give steps with owner and timeframe, cost and resources, the downside and what is done against it, what would \
         show that the move is wrong, and what is measured.\n\n\
         {}",
        json_only::<MovesDraft>()
    );
    let mut messages =
        vec![Message::user(format!("{}\n\n{}", fence.around("F1", f1), fence.around("F2", f2)))];
    keep(&mut messages);
    messages.push(Message::user(task));
    asking(persona, fence, messages)
}

/// Asks an analyst once more, with what was wrong with the answer.
pub fn analyst_again(first: &Request, answer: &str, problems: &[MoveProblem]) -> Request {
    let listed: String = problems.iter().map(|it| format!("- {it}\n")).collect();
    first.clone().message(Message::assistant(answer)).message(Message::user(format!(
        "This cannot be used yet:\n{listed}\nGive all moves again, in the same form, with this put right."
    )))
}

/// What is said about the form of an answer, with its schema.
fn json_only<T: schemars::JsonSchema>() -> String {
    let schema = serde_json::to_string(&schemars::schema_for!(T)).unwrap_or_default();
    format!("Answer only with JSON of this schema:\n{schema}")
}
