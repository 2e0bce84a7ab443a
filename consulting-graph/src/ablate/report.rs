//! The report on an ablation.

use app_support::plural::counted;
use llm::Money;

use super::{
    analysis::{Ablation, ArmResult, TOKEN_TOLERANCE},
    arm::Arm,
    contrast::{ContrastResult, Decision, ERROR_RATE, MIN_PAIRS},
    flaw::FlawKind,
    statistics::Interval,
};
use crate::report::{
    bar_chart::BarChart,
    document::{Block, dash},
    html,
    interval_chart::{IntervalChart, IntervalRow},
    markdown,
};

/// Maximum number of failures that the report lists.
const MAX_FAILURES: usize = 10;

/// Renders the report as Markdown.
pub(super) fn markdown(ablation: &Ablation) -> String {
    markdown::render(&blocks(ablation))
}

/// Renders the report as a self-contained HTML page without scripts.
pub(super) fn html(ablation: &Ablation) -> String {
    html::render(&title(ablation), &blocks(ablation))
}

fn title(ablation: &Ablation) -> String {
    format!("Does debating help? {}", ablation.ticker)
}

fn blocks(ablation: &Ablation) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(1, title(ablation))];
    blocks.extend(notices(ablation).into_iter().map(Block::Notice));
    blocks.push(Block::Heading(2, "Answer".to_owned()));
    blocks.push(Block::List(ablation.contrasts.iter().map(|it| answer(ablation, it)).collect()));
    blocks.push(Block::Intervals(contrast_chart(ablation)));
    blocks.push(Block::Heading(2, "Comparisons".to_owned()));
    blocks.push(Block::Legend(rule(ablation)));
    blocks.push(contrast_table(ablation));
    blocks.push(Block::Heading(2, "Arms".to_owned()));
    blocks.extend(arms(ablation));
    blocks.push(Block::Heading(2, "Cost".to_owned()));
    blocks.extend(cost(ablation));
    blocks.extend(planted(ablation));
    blocks.push(Block::Heading(2, "Method".to_owned()));
    blocks.push(Block::List(method(ablation)));
    if !ablation.failures.is_empty() {
        blocks.push(Block::Heading(2, "Failures".to_owned()));
        let shown = ablation.failures.iter().take(MAX_FAILURES).cloned();
        let more = ablation.failures.len().saturating_sub(MAX_FAILURES);
        let more = (more > 0).then(|| format!("{more} more in ablation.json"));
        blocks.push(Block::List(shown.chain(more).collect()));
    }
    blocks
}

/// Returns warnings that readers must not miss.
fn notices(ablation: &Ablation) -> Vec<String> {
    let mut notices = Vec::new();
    if ablation.critics.is_some() {
        notices.push(
            "SCRIPTED CRITICS: a program with a known skill made up all answers. This report checks the harness; it says \
             nothing about real models."
                .to_owned(),
        );
    }
    if ablation.is_incomplete() {
        let (n, of) = (ablation.complete_pairs, ablation.pairs);
        notices.push(format!(
            "INCOMPLETE: {n} of {of} pairs of moves judged in all arms. Resume the ablation to complete it."
        ));
    }
    if let Some(reason) = &ablation.stop_reason {
        notices.push(format!("STOPPED EARLY: {reason}"));
    }
    if ablation.complete_pairs < MIN_PAIRS {
        let pairs = counted(ablation.complete_pairs, "pair", "pairs");
        notices.push(format!(
            "TOO FEW MOVES TO DECIDE: {pairs}, and the rule requires {MIN_PAIRS}. The numbers below are descriptive only."
        ));
    }
    let placebo = ablation.contrast(Arm::Placebo, Arm::OneCall);
    if placebo.is_some_and(|it| matches!(it.decision, Decision::Better | Decision::Worse)) {
        notices.push(
            "THE PLACEBO HAS AN EFFECT: a debate about another move changes the verdicts, so part of the effect of other \
             arms is not due to the content of their debates."
                .to_owned(),
        );
    }
    if ablation.equal_tokens.is_some_and(|it| (it - 1.0).abs() > TOKEN_TOLERANCE) {
        notices.push("UNEQUAL TOKENS: see the section on cost.".to_owned());
    }
    notices
}

/// Answers the question of a comparison in one sentence.
fn answer(ablation: &Ablation, it: &ContrastResult) -> String {
    let decision = match it.decision {
        Decision::Better => "Yes: better",
        Decision::Worse => "No: worse",
        Decision::NoEffect => "No effect found",
        Decision::TooFewPairs => "Too few moves to decide",
    };
    let level = percent(ablation.contrast_level);
    let Interval { mean, low, high } = it.accuracy;
    format!(
        "{} {decision} (difference in accuracy {}, {level} interval {} to {}, p {}).",
        it.question,
        signed(mean),
        signed(low),
        signed(high),
        match p_value(it.p_value) {
            it if it.starts_with('<') => it,
            it => format!("= {it}"),
        }
    )
}

fn rule(ablation: &Ablation) -> String {
    format!(
        "A comparison has an effect if the paired sign-flip permutation test of the difference in accuracy has a p-value \
         (p) of at most {:.4}, so that the probability of any false effect among {} is at most {:.0}%. The paired \
         bootstrap intervals of level {} describe the differences in accuracy, sensitivity and specificity, but do not \
         decide, because such intervals are too narrow if there are few pairs.",
        ablation.max_p_value,
        counted(ablation.contrasts.len(), "comparison", "comparisons"),
        100.0 * ERROR_RATE,
        percent(ablation.contrast_level)
    )
}

fn contrast_chart(ablation: &Ablation) -> IntervalChart {
    let row = |it: &ContrastResult| IntervalRow {
        label: format!(
            "{} \u{2212} {}: {}",
            it.arm.label(),
            it.reference.label(),
            it.decision.label()
        ),
        value: it.accuracy.mean,
        low: it.accuracy.low,
        high: it.accuracy.high,
    };
    let rows: Vec<IntervalRow> = ablation.contrasts.iter().map(row).collect();
    let widest = rows.iter().flat_map(|it| [it.low.abs(), it.high.abs()]).fold(0.1, f64::max);
    IntervalChart {
        title: "Difference in accuracy, with bootstrap intervals".to_owned(),
        rows,
        scale: (-widest, widest),
        reference: Some(0.0),
    }
}

fn contrast_table(ablation: &Ablation) -> Block {
    let row = |it: &ContrastResult| {
        vec![
            it.arm.label().to_owned(),
            it.reference.label().to_owned(),
            difference(&it.accuracy),
            difference(&it.sensitivity),
            difference(&it.specificity),
            p_value(it.p_value),
            it.decision.label().to_owned(),
        ]
    };
    Block::table(
        &["Arm", "Compared with", "Accuracy", "Sensitivity", "Specificity", "p", "Decision"],
        ablation.contrasts.iter().map(row).collect(),
    )
}

fn arms(ablation: &Ablation) -> Vec<Block> {
    let chart = |title: &str, value: fn(&ArmResult) -> Interval| {
        let row = |it: &ArmResult| {
            let Interval { mean, low, high } = value(it);
            IntervalRow { label: it.arm.label().to_owned(), value: mean, low, high }
        };
        Block::Intervals(IntervalChart {
            title: title.to_owned(),
            rows: ablation.arms.iter().map(row).collect(),
            scale: (0.0, 1.0),
            reference: None,
        })
    };
    let metrics = |it: &ArmResult| {
        vec![
            it.arm.label().to_owned(),
            interval(&it.accuracy),
            interval(&it.sensitivity),
            interval(&it.specificity),
            optional(it.top_three),
            optional(it.tau_repeats),
            optional(it.tau_truth),
            it.unread.to_string(),
        ]
    };
    let kinds = |it: &ArmResult| {
        let kind = |kind: &FlawKind| optional(it.by_kind.get(kind).copied());
        let rates = FlawKind::ALL.iter().map(kind);
        [it.arm.label().to_owned()]
            .into_iter()
            .chain(rates)
            .chain([optional(it.kind_named)])
            .collect()
    };
    let mut kind_header = vec!["Arm"];
    kind_header.extend(FlawKind::ALL.map(FlawKind::label));
    kind_header.push("kind named correctly");
    vec![
        chart("Sensitivity: flawed moves that were judged flawed", |it| it.sensitivity),
        chart("Specificity: sound moves that were judged sound", |it| it.specificity),
        Block::Legend(
            "Intervals of level 95%. Top three: mean Jaccard index of the three best-scored moves in two repeats. \
             Repeats and truth: Kendall's tau-b of the scores with those of another repeat, and with whether the moves \
             are sound. The latter is at most 0.71 if no two scores are equal; ties raise the maximum to 1."
                .to_owned(),
        ),
        Block::table(
            &["Arm", "Accuracy", "Sensitivity", "Specificity", "Top three", "Repeats", "Truth", "Unreadable"],
            ablation.arms.iter().map(metrics).collect(),
        ),
        Block::Legend("Sensitivity for each kind of flaw.".to_owned()),
        Block::table(&kind_header, ablation.arms.iter().map(kinds).collect()),
    ]
}

fn cost(ablation: &Ablation) -> Vec<Block> {
    let whole = |it: f64| it.round() as u32;
    let highest = ablation.arms.iter().map(|it| it.tokens_per_move).fold(1.0, f64::max);
    let bars = BarChart {
        title: "Tokens per judged move".to_owned(),
        parts: Vec::new(),
        bars: ablation
            .arms
            .iter()
            .map(|it| (it.arm.label().to_owned(), vec![whole(it.tokens_per_move)]))
            .collect(),
        max: scale_end(highest),
    };
    let row = |it: &ArmResult| {
        vec![
            it.arm.label().to_owned(),
            it.calls.to_string(),
            it.input_tokens.to_string(),
            it.output_tokens.to_string(),
            whole(it.tokens_per_move).to_string(),
            it.cost.map_or_else(dash, dollars),
        ]
    };
    let header = ["Arm", "Calls", "Tokens in", "Tokens out", "Tokens per move", "Cost"];
    let total = &ablation.total;
    let total_row = vec![
        "All recorded calls".to_owned(),
        total.calls.to_string(),
        total.input_tokens.to_string(),
        total.output_tokens.to_string(),
        dash(),
        total.cost.map_or_else(dash, dollars),
    ];
    let legend = "Complete pairs. Only the last line counts all recorded calls, including \
                  those of incomplete pairs and of failed judgements.";
    let mut blocks = vec![
        Block::Bars(bars),
        Block::Legend(legend.to_owned()),
        Block::table(&header, ablation.arms.iter().map(row).chain([total_row]).collect()),
    ];
    if let Some(ratio) = ablation.equal_tokens {
        let is_equal = (ratio - 1.0).abs() <= TOKEN_TOLERANCE;
        let comparison = if is_equal { "within" } else { "NOT within" };
        blocks.push(Block::Text(format!(
            "Self-consistency used {} of the tokens of the debate of three rounds, {comparison} the tolerance of {}.",
            percent(ratio),
            percent(TOKEN_TOLERANCE)
        )));
    }
    if ablation.arm(Arm::Placebo).is_some() {
        blocks.push(Block::Text(
            "The placebo reuses the transcripts of the debates of three rounds, so only its verdicts are counted."
                .to_owned(),
        ));
    }
    blocks
}

/// Compares the measured skill of the scripted critics with the skill that they were configured with.
fn planted(ablation: &Ablation) -> Vec<Block> {
    let row = |it: &ArmResult| {
        let (sensitivity, specificity) = it.planted?;
        let cell = |planted: f64, measured: &Interval| {
            let found = if measured.contains(planted) { "inside" } else { "outside" };
            format!("{planted:.3} ({found} {})", interval(measured))
        };
        let cells = [cell(sensitivity, &it.sensitivity), cell(specificity, &it.specificity)];
        Some([it.arm.label().to_owned()].into_iter().chain(cells).collect::<Vec<String>>())
    };
    let rows: Vec<Vec<String>> = ablation.arms.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Heading(2, "Planted and measured skill".to_owned()),
        Block::Legend(
            "The skill of the scripted critics is known. About one in twenty intervals of level 95% is expected to miss \
             its planted value."
                .to_owned(),
        ),
        Block::table(&["Arm", "Sensitivity", "Specificity"], rows),
    ]
}

fn method(ablation: &Ablation) -> Vec<String> {
    let Ablation { pairs, repeats, seed, data, .. } = ablation;
    let mut points = vec![
        format!(
            "{}, made from the figures of {} ({data}) with seed {seed}: a sound move, and the same move \
             with exactly one flaw ({}). Every move was judged {} in each arm.",
            counted(*pairs, "pair of moves", "pairs of moves"),
            ablation.ticker,
            FlawKind::ALL.map(FlawKind::label).join(", "),
            if *repeats == 1 { "once".to_owned() } else { format!("{repeats} times") }
        ),
        "The same decision maker gives the verdict in all arms, with the same task and temperature.".to_owned(),
        "A verdict that cannot be read, even on a second request, counts as no flaw with a neutral score.".to_owned(),
    ];
    let has = |arms: &[Arm]| arms.iter().any(|it| ablation.arm(*it).is_some());
    if has(&[Arm::Debate1, Arm::Debate3, Arm::Debate10, Arm::Mixed]) {
        points.push("The turns of the debates use the prompts of the pipeline.".to_owned());
    }
    if has(&[Arm::SelfConsistency]) {
        points.push(
            "Self-consistency asks until it has used as many tokens as the debate of three rounds about the same move. \
             The majority decides, and the first verdict breaks ties."
                .to_owned(),
        );
    }
    if has(&[Arm::Placebo]) {
        points.push(
            "The placebo shows both moves of a pair the same debate about a third move. A random draw decides whether \
             the third move is sound or flawed."
                .to_owned(),
        );
    }
    points.extend(ablation.models.iter().map(|(role, it)| format!("Model of the {role}: {it}")));
    points
}

/// Returns a round number above `highest`, so that the label of the longest bar fits next to it.
fn scale_end(highest: f64) -> u32 {
    let end = 1.05 * highest;
    let unit = 10_f64.powf((end.log10().floor() - 1.0).max(0.0));
    ((end / unit).ceil() * unit).round() as u32
}

fn signed(value: f64) -> String {
    format!("{value:+.3}")
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

fn dollars(money: Money) -> String {
    format!("${:.4}", money.dollars())
}

fn interval(it: &Interval) -> String {
    format!("{:.3} [{:.3}, {:.3}]", it.mean, it.low, it.high)
}

fn difference(it: &Interval) -> String {
    format!("{} [{}, {}]", signed(it.mean), signed(it.low), signed(it.high))
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(dash, |it| format!("{it:.3}"))
}

#[cfg(test)]
mod tests {
    use super::scale_end;

    #[test]
    fn scales_end_at_a_round_number_above_the_longest_bar() {
        assert_eq!(
            [1.0, 94.0, 3409.0, 13_304.0, 62_067.0].map(scale_end),
            [2, 99, 3600, 14_000, 66_000]
        );
    }
}
