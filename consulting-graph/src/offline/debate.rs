//! Turns and scores of the offline board in debates.

use llm::{Message, Role};
use minijinja::{Value, context};
use serde_json::{Map, json};

use super::{
    moves::citation,
    task::DebatedMove,
    writer::{TEXTS, Writer},
};
use crate::{
    config::Metric,
    data::SeededRng,
    finding::{Direction, Finding, FindingId, find_citations},
};

/// Lowest and highest score for moves of increasing quality.
const QUALITIES: [(i64, i64); 5] = [(3, 5), (4, 6), (5, 7), (6, 8), (7, 9)];

/// Writes a turn of the critic: the opening for all decision makers, or a reply to one of them.
pub(super) fn critic_turn(
    debated: &DebatedMove,
    is_opening: bool,
    messages: &[Message],
    mut writer: Writer,
) -> String {
    add_evidence(&mut writer, debated);
    let names = names(debated);
    let remedy = latest(messages, &remedies(&writer, &names));
    let names = context! {
        concern => writer.phrase("concern", &names),
        remedy => remedy.unwrap_or_else(|| "a smaller start".to_owned()),
        ..names
    };
    let lists: &[&str] = if is_opening {
        &["critic_first", "critic_claim", "critic_cost", "critic_point", "critic_ask"]
    } else if writer.makes_mistake(50) {
        &["critic_take", "stubborn_critic"]
    } else if writer.makes_mistake(30) {
        &["critic_take", "slip", "critic_point", "critic_ask"]
    } else {
        &["critic_take", "critic_press", "critic_point", "critic_ask"]
    };
    say(&writer, lists, &names)
}

/// Writes a turn of a decision maker, who answers the critic's latest concern.
pub(super) fn maker_turn(
    debated: &DebatedMove,
    maker: &str,
    messages: &[Message],
    mut writer: Writer,
) -> String {
    add_evidence(&mut writer, debated);
    let style = style(maker);
    let names = names(debated);
    let names = context! {
        worry => latest_concern(messages),
        remedy => writer.phrase(&format!("{style}_maker_remedy"), &names),
        ..names
    };
    let [open, argue, close] = ["open", "argue", "close"].map(|it| format!("{style}_maker_{it}"));
    if writer.makes_mistake(50) {
        return say(&writer, &["stubborn_maker", &close], &names);
    }
    let argument = if writer.makes_mistake(30) { "slip" } else { &*argue };
    // Some objections stay unanswered, as in real debates.
    match new_objection(debated, messages) {
        Some(id) if writer.number(1, 2) == 1 => {
            let names = context! { challenged => format!("[{id}]"), ..names };
            say(&writer, &[&open, "maker_answer", argument, "settles", &close], &names)
        }
        _ => say(&writer, &[&open, argument, "settles", &close], &names),
    }
}

/// Writes a summary of earlier rounds: the concerns that the critic raised in them.
pub(super) fn summary(debated: &DebatedMove, messages: &[Message]) -> String {
    let text: String = messages.iter().map(Message::text).collect();
    let concerns = TEXTS.phrases.get("concern").map_or(&[][..], Vec::as_slice);
    let raised: Vec<&str> =
        concerns.iter().map(String::as_str).filter(|it| text.contains(it)).collect();
    let raised = if raised.is_empty() { "the risk".to_owned() } else { raised.join("; ") };
    format!(
        "The critic questioned \u{201c}{}\u{201d} on these points: {raised}.",
        debated.draft.title
    )
}

/// Writes the scores of a decision maker. About one answer in fifteen does not have the requested form. `quality` is
/// the seed for the quality of the move, which is the same for all decision makers. The scores are lower if the
/// decision maker conceded more than the critic did in their debate, and higher if it is the other way round.
pub(super) fn scores(
    debated: &DebatedMove,
    metrics: &[Metric],
    is_baseline: bool,
    messages: &[Message],
    quality: &str,
    writer: &Writer,
) -> String {
    let names = context! { worry => latest_concern(messages), ..names(debated) };
    let change = if is_baseline { 0 } else { change_of_view(messages) };
    let view = writer.phrase(
        match change {
            _ if is_baseline => "first_view",
            ..0 => "verdict_lower",
            0 => "verdict_same",
            _ => "verdict_higher",
        },
        &names,
    );
    let score = |metric: &Metric| {
        // A feasible move is not necessarily a good one, so the quality for this metric is drawn separately.
        let is_ease = metric.id == "feasibility";
        let mut rng = SeededRng::from_text(&format!("{quality}\n{is_ease}"));
        let (low, high) = QUALITIES[rng.between(0, 4) as usize];
        writer.number(low, high) + change
    };
    let form = |score: &dyn Fn(&Metric) -> serde_json::Value| {
        let scores = metrics.iter().map(|it| (it.id.clone(), score(it)));
        let answer: Map<_, _> = scores.chain([("reasoning".to_owned(), json!(view))]).collect();
        json!(answer).to_string()
    };
    let requested = form(&|it| json!(score(it)));
    let intro = writer.phrase("many_words", &names);
    let mistake = if writer.makes_mistake(70) { writer.number(1, 7) } else { 0 };
    match mistake {
        1 => format!("{intro}\n\n```json\n{requested}\n```\n\nI would vote the same way again."),
        2 => form(&|it| json!(format!("{}/10", score(it)))),
        3 => {
            let labels = metrics.iter().map(|it| format!("**{}:** {}\n", it.name, score(it)));
            format!("{intro}\n\n{}\n{view}", labels.collect::<String>())
        }
        4 => form(&|it| json!(score(it) as f64 + 0.5)),
        5 => form(&|_| json!(writer.number(11, 15))),
        6 => requested.chars().take(requested.chars().count() * 2 / 3).collect(),
        7 => format!("I would prefer not to put a number on it. {view}"),
        _ => requested,
    }
}

/// Returns the effect of a debate on the scores of a decision maker: -1 if it conceded more often than the critic, 1 if
/// the critic did, otherwise 0.
fn change_of_view(messages: &[Message]) -> i64 {
    let concessions = |role: Role, list: &str| {
        let phrases = TEXTS.phrases.get(list).map_or(&[][..], Vec::as_slice);
        let turns = messages.iter().filter(|it| it.role == role).map(Message::text);
        turns.filter(|text| phrases.iter().any(|it| text.contains(it))).count() as i64
    };
    let own = concessions(Role::Assistant, "maker_concedes");
    (concessions(Role::User, "critic_concedes") - own).signum()
}

/// Fills in one phrase from each list and joins the phrases.
fn say(writer: &Writer, lists: &[&str], names: &Value) -> String {
    let phrases: Vec<String> = lists.iter().map(|it| writer.phrase(it, names)).collect();
    phrases.join(" ")
}

/// Adds template functions that cite the findings on which the move is based.
fn add_evidence(writer: &mut Writer, debated: &DebatedMove) {
    let cite = |direction: Option<Direction>| -> Vec<String> {
        let fits =
            |it: &&Finding| direction.is_none_or(|direction| it.draft.direction == direction);
        debated.evidence.iter().filter(fits).map(citation).collect()
    };
    let or = |texts: Vec<String>, other: &dyn Fn() -> Vec<String>| {
        if texts.is_empty() { other() } else { texts }
    };
    let nothing = || vec!["the move cites nothing that could be checked".to_owned()];
    let facts = || or(cite(None), &nothing);
    writer.add_texts("fact", facts());
    writer.add_texts("pro", or(cite(Some(Direction::Positive)), &facts));
    writer.add_texts("con", or(cite(Some(Direction::Negative)), &facts));
    let ids: Vec<String> = debated.evidence.iter().map(|it| it.id.to_string()).collect();
    writer.add_texts("cited", or(ids, &|| vec!["no finding".to_owned()]));
}

/// Returns the parts of the move that templates can refer to. A template that refers to a missing part is skipped.
fn names(debated: &DebatedMove) -> Value {
    let draft = &debated.draft;
    let part = |text: &str| match text.trim_end_matches('.') {
        "" => Value::UNDEFINED,
        text => Value::from(text),
    };
    let step = draft.steps.first();
    context! {
        title => draft.title,
        cost => part(&draft.cost),
        kpi => part(&draft.kpi),
        falsifier => part(draft.falsifiers.first().map_or("", String::as_str)),
        step => part(step.map_or("", |it| &it.action)),
        owner => part(step.map_or("", |it| &it.owner)),
    }
}

/// Returns the prefix of the names of the phrase lists for a decision maker.
fn style(maker: &str) -> &'static str {
    match maker {
        "Growth Strategist" => "growth",
        "Operational Pragmatist" => "pragmatic",
        "Stakeholder Value Advocate" => "value",
        _ => "plain",
    }
}

/// Returns the first finding that the critic's latest turn cites, if the decision maker has not cited it before.
fn new_objection(debated: &DebatedMove, messages: &[Message]) -> Option<FindingId> {
    let cited = |it: &Message| -> Vec<FindingId> {
        find_citations(&it.text()).into_iter().filter_map(|it| it.1.ok()).collect()
    };
    // The last message is the request to answer; the turn is before it.
    let latest = messages.iter().rev().nth(1)?;
    let own = messages.iter().filter(|it| it.role == Role::Assistant).flat_map(cited);
    let own: Vec<FindingId> = own.collect();
    let is_known = |id: &FindingId| debated.evidence.iter().any(|it| it.id == *id);
    cited(latest).into_iter().find(|it| is_known(it) && !own.contains(it))
}

/// Returns all remedies that decision makers may propose.
fn remedies(writer: &Writer, names: &Value) -> Vec<String> {
    let lists = TEXTS.phrases.iter().filter(|it| it.0.ends_with("_maker_remedy"));
    lists.flat_map(|it| it.1).filter_map(|it| writer.fill(it, names)).collect()
}

fn latest_concern(messages: &[Message]) -> String {
    let concerns = TEXTS.phrases.get("concern").map_or(&[][..], Vec::as_slice);
    latest(messages, concerns).unwrap_or_else(|| "the risk".to_owned())
}

/// Finds the latest message that contains one of `phrases`, and returns that phrase.
fn latest(messages: &[Message], phrases: &[String]) -> Option<String> {
    messages.iter().rev().find_map(|message| {
        let text = message.text();
        phrases.iter().find(|it| text.contains(it.as_str())).cloned()
    })
}
