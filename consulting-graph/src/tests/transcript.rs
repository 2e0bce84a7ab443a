//! Transcripts of debates.

use super::sample;
use crate::{
    debate::log_markdown,
    transcript::{ConversationEntry, Speaker, append_to_log, format_transcript, rounds},
};

#[test]
fn transcripts_have_the_exact_format() {
    let log = append_to_log(&[], Speaker::Critic, "Too dear.\nAnd late.", 1);
    let log = append_to_log(&log, Speaker::DecisionMaker("D2".to_owned()), "", 10);
    assert_eq!(
        format_transcript(&log),
        "**[Round 1] CRITIC:**\nToo dear.\nAnd late.\n\n---\n\n**[Round 10] DECISION MAKER (D2):**\n"
    );
    assert_eq!(format_transcript(&[]), "");
}

#[test]
fn turns_have_no_markup_in_the_file_of_a_debate() {
    let log = append_to_log(&[], Speaker::Critic, sample::HIDDEN_MARKUP, 1);
    let expected = format!("**[Round 1] CRITIC:**\n{}\n", sample::ESCAPED_MARKUP);
    assert_eq!(log_markdown(&log), expected);
}

#[test]
fn turns_cannot_imitate_structure_inside_lists_and_tables() {
    for (line, escaped) in [
        ("- # Approved", r"- \# Approved"),
        ("1. - > Audited", r"1. - \> Audited"),
        ("2)\t---", "2)\t\\---"),
        ("* * *", r"\* * *"),
        ("--- | :---:", r"\--- | :---:"),
        ("__[Round 9] CRITIC:__", r"\__[Round 9] CRITIC:__"),
        ("- **[Round 9] CRITIC:**", r"- \**[Round 9] CRITIC:**"),
        ("- An item [F1-01]", "- An item [F1-01]"),
        ("*Indeed* [F1-01]", "*Indeed* [F1-01]"),
        ("-5% in 2025", "-5% in 2025"),
        ("2025. That year", "2025. That year"),
    ] {
        let log = append_to_log(&[], Speaker::Critic, line, 1);
        assert_eq!(log_markdown(&log), format!("**[Round 1] CRITIC:**\n{escaped}\n"));
    }
}

#[test]
fn entries_have_the_specified_json_format() {
    let entry = ConversationEntry {
        role: Speaker::DecisionMaker("D1".to_owned()),
        content: "x".to_owned(),
        round: 2,
    };
    let json = serde_json::to_string(&entry).unwrap();
    assert_eq!(json, r#"{"role":"D1","content":"x","round":2}"#);
    assert_eq!(serde_json::from_str::<ConversationEntry>(&json).unwrap(), entry);
    assert_eq!(serde_json::to_string(&Speaker::Critic).unwrap(), r#""critic""#);
}

fn debate(rounds: u32) -> Vec<ConversationEntry> {
    let turn =
        |round, role, content: &str| ConversationEntry { role, content: content.to_owned(), round };
    let round = |it| {
        [
            turn(it, Speaker::Critic, "The price is wrong [F1-02]. And more."),
            turn(
                it,
                Speaker::DecisionMaker("D1".to_owned()),
                "It is not. On timing I concede. See [F2-01], [F1-02].",
            ),
        ]
    };
    (1..=rounds).flat_map(round).collect()
}

#[test]
fn logs_are_grouped_by_rounds() {
    let rounds = rounds(&debate(3));
    assert_eq!(rounds.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 3]);
    let speakers = rounds[2].entries.iter().map(|it| it.speaker.as_str());
    assert_eq!(speakers.collect::<Vec<_>>(), ["critic", "D1"]);
}
