//! Renders findings as Markdown and parses them back.

use serde::{Deserialize, de::value::StrDeserializer};

use super::{
    draft::{
        DEFAULT_STRENGTH, Direction, Evidence, FindingDraft, FindingsDraft, Kind, TensionDraft,
    },
    id::{FindingId, Inference, find_citations},
    numbered::{Finding, Findings},
};
use crate::markdown::{self, Section};

impl Findings {
    /// Renders the findings as Markdown.
    pub fn markdown(&self) -> String {
        let name = match self.inference {
            Inference::F1 => "Financial inference",
            Inference::F2 => "Trend inference",
        };
        let mut text = format!("# {} \u{2014} {name}: {}\n", self.inference, self.ticker);
        for finding in &self.findings {
            text.push('\n');
            text.push_str(&render_finding(finding));
        }
        text.push_str("\n## Tensions\n\n");
        if self.tensions.is_empty() {
            text.push_str("None.\n");
        }
        for tension in &self.tensions {
            let ids: Vec<String> = tension.between.iter().map(FindingId::to_string).collect();
            text.push_str(&format!(
                "- {}: {}\n",
                ids.join(", "),
                markdown::one_line(&tension.text)
            ));
        }
        text
    }
}

pub(super) fn render_finding(finding: &Finding) -> String {
    let draft = &finding.draft;
    let mut text = format!(
        "## {} ({}, {}, strength {})\n\n{}\n",
        finding.id,
        variant_name(&draft.kind),
        variant_name(&draft.direction),
        draft.strength,
        markdown::escape_line_starts(&markdown::one_line(&draft.claim))
    );
    if !draft.evidence.is_empty() {
        text.push('\n');
    }
    for it in &draft.evidence {
        let (section, quote) = (markdown::one_line(&it.section), markdown::one_line(&it.quote));
        text.push_str(&format!("- Evidence, {section}: \"{quote}\"\n"));
    }
    text
}

/// Parses findings from Markdown. Every section whose heading contains an id is a finding. If no heading contains an
/// id, every section with text is a finding.
///
/// Never fails; [`violations`](super::violations) reports what is missing.
pub(crate) fn parse(text: &str) -> FindingsDraft {
    let sections = markdown::sections(text, |_| false);
    let is_tensions = |it: &Section<'_>| it.title.to_lowercase().contains("tension");
    let has_id =
        |it: &Section<'_>| !find_citations(it.title).is_empty() && !is_tensions(it) && it.level > 1;
    let by_id = sections.iter().any(has_id);
    let is_finding = |it: &&Section<'_>| {
        if by_id { has_id(it) } else { !is_tensions(it) && !it.body.trim().is_empty() }
    };
    let headings: Vec<&Section<'_>> = sections.iter().filter(is_finding).collect();
    let number_of = |id: &FindingId| {
        let place = headings
            .iter()
            .position(|it| find_citations(it.title).iter().any(|(_, it)| it.as_ref() == Ok(id)));
        // If no heading contains this id, the number in the id is used as the position of the finding, counted from 1.
        place.map_or(Some(id.number), |it| u8::try_from(it + 1).ok())
    };
    let tensions =
        sections.iter().filter(|it| is_tensions(it)).flat_map(|it| markdown::list_items(&it.body));
    FindingsDraft {
        findings: headings.iter().map(|it| finding(it)).collect(),
        tensions: tensions.filter_map(|it| tension(&it, number_of)).collect(),
    }
}

fn finding(section: &Section<'_>) -> FindingDraft {
    let (evidence, claim): (Vec<&str>, Vec<&str>) = section
        .body
        .lines()
        .partition(|it| without_bullet(it).to_lowercase().starts_with("evidence"));
    let heading = section.title.to_lowercase();
    let words =
        || heading.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|it| !it.is_empty());
    let strength = words().skip_while(|it| *it != "strength").find_map(|it| it.parse().ok());
    FindingDraft {
        claim: markdown::one_line(&claim.join(" ")),
        evidence: evidence.into_iter().filter_map(evidence_of).collect(),
        direction: words()
            .filter_map(parse_variant::<Direction>)
            .find(|it| *it != Direction::Mixed)
            .unwrap_or_default(),
        strength: strength.unwrap_or(DEFAULT_STRENGTH),
        kind: words()
            .filter_map(parse_variant::<Kind>)
            .find(|it| *it != Kind::Other)
            .unwrap_or_default(),
    }
}

fn without_bullet(line: &str) -> &str {
    line.trim_start_matches(|it: char| it.is_whitespace() || it == '-' || it == '*')
}

/// Parses a line such as `Evidence, Income Statement: "..."`. The name of the section may be in brackets or bold.
fn evidence_of(line: &str) -> Option<Evidence> {
    let rest = without_bullet(line).get("evidence".len()..)?;
    let (section, quote) = rest.split_once(':')?;
    let section = section.trim_matches(|it: char| !it.is_alphanumeric());
    let quote = quote.trim().trim_start_matches('*').trim();
    let inner = quote.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(quote);
    (!inner.is_empty()).then(|| Evidence { section: section.to_owned(), quote: inner.to_owned() })
}

fn tension(point: &str, number_of: impl Fn(&FindingId) -> Option<u8>) -> Option<TensionDraft> {
    let cited = find_citations(point);
    let (last, _) = cited.last()?;
    let between: Vec<u8> =
        cited.iter().filter_map(|(_, id)| number_of(id.as_ref().ok()?)).collect();
    let text = match point.split_once(':') {
        Some((ids, text)) if ids.len() > *last => text,
        _ => point,
    };
    (between.len() > 1).then(|| TensionDraft { between, text: text.trim().to_owned() })
}

fn variant_name<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|it| it.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn parse_variant<'a, T: Deserialize<'a>>(word: &'a str) -> Option<T> {
    T::deserialize(StrDeserializer::<serde::de::value::Error>::new(word)).ok()
}
