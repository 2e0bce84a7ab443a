//! Renders the differences between two runs as text.

use std::fmt::Display;

use app_support::terminal::strip_invisible;

use super::run_diff::{Cost, RunDiff};
use crate::{
    data::number,
    difference::{SettingChange, Sides},
};

impl RunDiff {
    /// Renders the differences as text.
    pub fn text(&self) -> String {
        let Sides { a, b } = &self.runs;
        let mut text = format!("a: {a}\nb: {b}\n");
        let mut section = |title: &str, body: String| text.push_str(&format!("\n{title}\n{body}"));
        if self.is_same() {
            section("The runs have the same settings and the same results.", String::new());
        } else if self.first.is_none() && self.moves.is_empty() {
            section("The runs have the same results.", String::new());
        }
        if !self.settings.is_empty() {
            section("Settings", self.settings.iter().map(setting).collect());
        }
        if let Some(first) = &self.first {
            let Sides { a, b } = &first.texts;
            let body =
                format!("  {}\n    a: {}\n    b: {}\n", first.place, or_nothing(a), or_nothing(b));
            section("First divergence", body);
        }
        if !self.moves.is_empty() {
            section("Moves", self.moves());
        }
        section("Cost", self.cost());
        text
    }

    fn moves(&self) -> String {
        let mut lines = format!("  {:<5} {:>9} {:>11}  title\n", "move", "rank", "score");
        for it in &self.moves {
            let (id, rank, score) = (it.move_id.to_string(), change(&it.rank), change(&it.score));
            lines.push_str(&format!("  {id:<5} {rank:>9} {score:>11}  {}\n", it.title));
        }
        strip_invisible(&lines)
    }

    fn cost(&self) -> String {
        let Sides { a, b } = &self.cost;
        let tokens = |of: fn(&Cost) -> u64| format!("{} → {}", grouped(of, a), grouped(of, b));
        let dollars = |it: &Cost| {
            it.dollars.map_or_else(|| "price unknown".to_owned(), |it| format!("${it:.4}"))
        };
        let own = |name: &str, it: &Cost| {
            let n_calls = it.own_calls?;
            Some(format!(
                "  {name} is a fork and made {} of them itself\n",
                number::grouped(n_calls)
            ))
        };
        let own: String = [own("a", a), own("b", b)].into_iter().flatten().collect();
        format!(
            "  calls {}\n{own}  tokens in {}\n  tokens out {}\n  {} → {}\n",
            tokens(|it| it.calls),
            tokens(|it| it.input_tokens),
            tokens(|it| it.output_tokens),
            dollars(a),
            dollars(b),
        )
    }
}

fn setting(it: &SettingChange) -> String {
    let shown = |it: &Option<String>| it.clone().unwrap_or_else(|| "not set".to_owned());
    format!("  {}: {} → {}\n", it.path, shown(&it.values.a), shown(&it.values.b))
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "(nothing)" } else { text }
}

fn change<T: Display + PartialEq>(of: &Sides<Option<T>>) -> String {
    let shown = |it: &Option<T>| it.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    if of.a == of.b { shown(&of.a) } else { format!("{} → {}", shown(&of.a), shown(&of.b)) }
}

fn grouped(of: fn(&Cost) -> u64, cost: &Cost) -> String {
    number::grouped(of(cost))
}
