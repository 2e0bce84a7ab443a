//! Renders moves as Markdown and parses them back.

use super::{
    draft::{MoveDraft, Risk, Step},
    numbered::Move,
};
use crate::{
    finding::find_citations,
    markdown::{self, LABEL_LEVEL, Section},
};

/// The sections of the Markdown document of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Thesis,
    WhyNow,
    Reasoning,
    Citations,
    Steps,
    Cost,
    Downside,
    Mitigation,
    Falsifiers,
    Kpi,
}

/// Headings of each section. The first heading is used for rendering; the others are variants that models use.
const NAMES: &[(Part, &[&str])] = &[
    (Part::Thesis, &["thesis", "summary", "core idea"]),
    (Part::WhyNow, &["why now", "timing"]),
    (Part::Reasoning, &["reasoning", "rationale", "analysis", "argument"]),
    (Part::Citations, &["citations", "supporting evidence", "evidence", "findings", "sources"]),
    (Part::Steps, &["steps", "implementation", "execution", "action plan", "roadmap"]),
    (Part::Cost, &["cost and resources", "cost", "costs", "resources", "budget", "investment"]),
    (Part::Downside, &["downside", "downsides", "risks", "what can go wrong"]),
    (Part::Mitigation, &["mitigation", "mitigations"]),
    (
        Part::Falsifiers,
        &["what would show this is wrong", "falsifiers", "falsification", "kill criteria"],
    ),
    (Part::Kpi, &["kpi", "kpis", "key performance indicators", "success metrics", "measures"]),
];

impl Move {
    /// Returns the content of the file of the move, such as `m7.md`: its Markdown document, in which HTML, links and
    /// images that a model wrote have no effect.
    pub fn file_text(&self) -> String {
        markdown::escape_markup(&self.markdown())
    }

    /// Renders the move as a Markdown document for prompts.
    pub fn markdown(&self) -> String {
        let draft = &self.draft;
        let title = markdown::one_line(&draft.title);
        let risk = draft.risk_level.name();
        let mut text = format!(
            "# {}: {title}\n\n{}, {risk} risk, {}\n",
            self.move_id, self.persona, self.ticker
        );
        let steps: Vec<String> =
            (1..).zip(&draft.steps).map(|(number, it)| step(number, it)).collect();
        let bullets = |all: &[String]| -> String {
            all.iter().map(|it| format!("- {}\n", item(it))).collect()
        };
        let citations: Vec<String> =
            draft.citations.iter().map(|it| format!("[{}]", it.trim_matches(['[', ']']))).collect();
        for (part, names) in NAMES {
            let body = match part {
                Part::Thesis => draft.thesis.clone(),
                Part::WhyNow => draft.why_now.clone(),
                Part::Reasoning => draft.reasoning.join("\n\n"),
                Part::Citations => bullets(&citations),
                Part::Steps => steps.concat(),
                Part::Cost => draft.cost.clone(),
                Part::Downside => draft.downside.clone(),
                Part::Mitigation => draft.mitigation.clone(),
                Part::Falsifiers => bullets(&draft.falsifiers),
                Part::Kpi => draft.kpi.clone(),
            };
            let name = names.first().copied().unwrap_or_default();
            let body = markdown::escape_line_starts(body.trim());
            text.push_str(&format!("\n## {}\n\n{body}\n", capitalize(name)));
        }
        text
    }
}

fn step(number: usize, it: &Step) -> String {
    let mut text = format!("{number}. {}", item(&it.action));
    for (name, value) in [("owner", &it.owner), ("timeframe", &it.timeframe)] {
        if !value.trim().is_empty() {
            text.push_str(&format!(" ({name}: {})", markdown::one_line(value)));
        }
    }
    text.push('\n');
    text
}

/// Converts a text to the first line of a list item, which must not start with a heading or a quote.
fn item(text: &str) -> String {
    markdown::escape_line_starts(&markdown::one_line(text))
}

fn capitalize(name: &str) -> String {
    let mut letters = name.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let capital = first + letters.as_str();
    if capital == "Kpi" { "KPI".to_owned() } else { capital }
}

/// Parses moves from Markdown. A heading starts a move if it is followed by the headings of move sections, such as
/// `Thesis`, and is not itself the heading of a section.
///
/// Never fails; [`violations`](super::violations) reports what is missing.
pub fn parse(text: &str) -> Vec<MoveDraft> {
    let sections = markdown::sections(text, |it| part_of(it).is_some());
    let move_level = move_level(&sections);
    let mut groups: Vec<(&Section<'_>, Vec<&Section<'_>>)> = Vec::new();
    for section in &sections {
        let opens = match move_level {
            Some(level) => section.level <= level,
            None => part_of(section.title).is_none() && section.level < LABEL_LEVEL,
        };
        match groups.last_mut() {
            _ if opens => groups.push((section, Vec::new())),
            Some((_, parts)) => parts.push(section),
            None => {}
        }
    }
    groups.retain(|(_, parts)| parts.iter().any(|it| part_of(it.title).is_some()));
    groups.iter().enumerate().map(|(idx, (head, parts))| draft(idx, head, parts)).collect()
}

/// Returns the level of the headings that start a move: the deepest heading level above that of the sections. Returns
/// `None` if the titles of the moves have the same level as the sections.
fn move_level(sections: &[Section<'_>]) -> Option<usize> {
    let is_part = |it: &&Section<'_>| part_of(it.title).is_some();
    let parts = sections.iter().filter(is_part).map(|it| it.level).min()?;
    sections.iter().filter(|it| !is_part(it) && it.level < parts).map(|it| it.level).max()
}

fn draft(idx: usize, head: &Section<'_>, parts: &[&Section<'_>]) -> MoveDraft {
    let title = title(head.title);
    let risk_level = risk(head.title).or_else(|| risk(&head.body)).unwrap_or(match idx {
        0 => Risk::Low,
        1 => Risk::Medium,
        _ => Risk::High,
    });
    let mut draft = MoveDraft { title, risk_level, ..MoveDraft::default() };
    for section in parts {
        let body = section.body.as_str();
        match part_of(section.title) {
            Some(Part::Thesis) => draft.thesis = markdown::paragraphs(body).join("\n\n"),
            Some(Part::WhyNow) => draft.why_now = markdown::paragraphs(body).join("\n\n"),
            Some(Part::Citations) => draft.citations.extend(citations(body)),
            Some(Part::Steps) => {
                draft.steps.extend(markdown::list_items(body).iter().map(|it| step_of(it)))
            }
            Some(Part::Cost) => draft.cost = markdown::paragraphs(body).join("\n\n"),
            Some(Part::Downside) => draft.downside = markdown::paragraphs(body).join("\n\n"),
            Some(Part::Mitigation) => draft.mitigation = markdown::paragraphs(body).join("\n\n"),
            Some(Part::Falsifiers) => draft.falsifiers.extend(markdown::list_items(body)),
            Some(Part::Kpi) => draft.kpi = markdown::paragraphs(body).join("\n\n"),
            // Sections with unknown headings are treated as part of the reasoning.
            Some(Part::Reasoning) | None => draft.reasoning.extend(markdown::paragraphs(body)),
        }
    }
    draft
}

fn part_of(title: &str) -> Option<Part> {
    let numbered =
        title.trim_start_matches(|it: char| it.is_ascii_digit() || matches!(it, '.' | ')' | ' '));
    let plain = numbered.trim_end_matches([':', '.']).trim().to_lowercase();
    let fits = |name: &str| plain.strip_prefix(name).is_some_and(is_heading_suffix);
    NAMES.iter().find(|(_, names)| names.iter().any(|it| fits(it))).map(|(part, _)| *part)
}

/// Returns whether a heading still denotes a section if `rest` follows the name of the section. The headings `Downside
/// & mitigation` and `Steps (with owners)` denote a section; `Cost leadership in Asia` does not.
fn is_heading_suffix(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', ',']);
    let sign = rest.starts_with(['&', '(', '/', '\u{2014}', '\u{2013}', '-']);
    rest.is_empty() || sign || rest.starts_with("and ") || rest.starts_with("with ")
}

/// Returns the title in a heading, without a prefix such as `m4:` or `Move 2 (high risk):`.
fn title(heading: &str) -> String {
    let Some((before, after)) = heading.split_once(':') else { return heading.to_owned() };
    let lower = before.to_lowercase();
    let numbered =
        lower.strip_prefix('m').is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()));
    let label = numbered || lower.starts_with("move") || risk(before).is_some();
    if label && !after.trim().is_empty() { after.trim().to_owned() } else { heading.to_owned() }
}

fn risk(text: &str) -> Option<Risk> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    let about = words.iter().position(|it| *it == "risk")?;
    let near = &words[about.saturating_sub(1)..(about + 3).min(words.len())];
    near.iter().find_map(|it| match *it {
        "low" => Some(Risk::Low),
        "medium" | "moderate" => Some(Risk::Medium),
        "high" => Some(Risk::High),
        _ => None,
    })
}

fn citations(body: &str) -> Vec<String> {
    let ids = find_citations(body).into_iter().map(|(_, id)| match id {
        Ok(id) => id.to_string(),
        Err(error) => error.0,
    });
    let mut unique: Vec<String> = Vec::new();
    for id in ids {
        if !unique.contains(&id) {
            unique.push(id);
        }
    }
    unique
}

/// Parses a step such as `Renegotiate the contracts (owner: CFO) (timeframe: Q2)`.
fn step_of(point: &str) -> Step {
    let mut action = point.to_owned();
    let mut take = |names: &[&str]| {
        let found = names.iter().find_map(|name| {
            let from = action.find(&format!("({name}: "))?;
            let value_from = from + name.len() + 3;
            let length = action[value_from..].find(')')?;
            Some((from, value_from, value_from + length))
        });
        let Some((from, value_from, end)) = found else { return String::new() };
        let value = action[value_from..end].trim().to_owned();
        action.replace_range(from..=end, "");
        value
    };
    let (owner, timeframe) = (take(&["owner", "Owner"]), take(&["by", "timeframe", "Timeframe"]));
    Step { action: action.trim().to_owned(), owner, timeframe }
}
