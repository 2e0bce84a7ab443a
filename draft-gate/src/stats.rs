//! Statistics about decisions, parse failures, edit times and violations.

use std::{collections::BTreeMap, fmt};

use chrono::{DateTime, Utc};

use crate::{audit::Record, error::Error, gate::Gate};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub requested: usize,
    pub submitted: usize,
    pub accepted: usize,
    pub rejected: usize,
    pub escalated: usize,
    /// Number of accepted change sets that were undone.
    pub undone: usize,
    pub violations: usize,
    pub extracted: usize,
    pub extraction_failed: usize,
    /// Times between consecutive steps of a draft (request, write, submit), in milliseconds, sorted.
    pub edit_millis: Vec<i64>,
    pub rules: BTreeMap<String, usize>,
}

impl Gate {
    pub fn stats(&self) -> Result<Stats, Error> {
        Ok(Stats::of(&self.records()?))
    }
}

impl Stats {
    fn of(records: &[Record]) -> Self {
        let mut stats = Self::default();
        let mut last_step: BTreeMap<&str, DateTime<Utc>> = BTreeMap::new();
        for record in records {
            match record.event.as_str() {
                "requested" => stats.requested += 1,
                "submitted" => stats.submitted += 1,
                "accepted" => stats.accepted += 1,
                "rejected" => stats.rejected += 1,
                "escalated" => stats.escalated += 1,
                "undone" => stats.undone += 1,
                "violation" => stats.violations += 1,
                "extracted" => stats.extracted += 1,
                "extraction_failed" => stats.extraction_failed += 1,
                _ => {}
            }
            if matches!(record.event.as_str(), "rejected" | "escalated") {
                let rules =
                    record.more.get("rules").and_then(|it| it.as_array()).into_iter().flatten();
                for rule in rules.filter_map(|it| it.as_str()) {
                    *stats.rules.entry(rule.to_owned()).or_default() += 1;
                }
            }
            stats.record_step(record, &mut last_step);
        }
        stats.edit_millis.sort_unstable();
        stats
    }

    fn record_step<'a>(&mut self, record: &'a Record, last: &mut BTreeMap<&'a str, DateTime<Utc>>) {
        let draft = record.more.get("draft").and_then(|it| it.as_str());
        let (Some(draft), Ok(time)) = (draft, record.timestamp.parse::<DateTime<Utc>>()) else {
            return;
        };
        if let Some(before) = last.insert(draft, time).filter(|_| record.event != "requested") {
            self.edit_millis.push((time - before).num_milliseconds());
        }
    }

    /// Returns the share of texts from which no file could be extracted, or `None` if there were no texts.
    pub fn parse_failure_rate(&self) -> Option<f64> {
        let all = self.extracted + self.extraction_failed;
        let share = |part: usize| f64::from(u32::try_from(part).unwrap_or(u32::MAX));
        (all > 0).then(|| share(self.extraction_failed) / share(all))
    }

    /// Returns a percentile (0 to 100) of the edit times, in milliseconds, or `None` if there are no edit times.
    pub(crate) fn edit_time(&self, percent: usize) -> Option<i64> {
        let last = self.edit_millis.len().checked_sub(1)?;
        self.edit_millis.get(last * percent / 100).copied()
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |percent| match self.edit_time(percent) {
            Some(millis) => format!("{}.{:03} s", millis / 1000, millis % 1000),
            None => "–".to_owned(),
        };
        let rate = self.parse_failure_rate();
        let rate = rate.map_or_else(
            || "no texts".to_owned(),
            |it| format!("{:.1} % of texts failed (target: under 1 %)", it * 100.0),
        );
        writeln!(f, "drafts      {} requested, {} submitted", self.requested, self.submitted)?;
        writeln!(
            f,
            "decisions   {} accepted, {} rejected, {} escalated, {} undone",
            self.accepted, self.rejected, self.escalated, self.undone
        )?;
        writeln!(f, "violations  {}", self.violations)?;
        writeln!(
            f,
            "edit time   median {}, 95th percentile {} (target: 5 s)",
            seconds(50),
            seconds(95)
        )?;
        writeln!(f, "parsing     {rate}")?;
        for (rule, count) in &self.rules {
            writeln!(f, "rule        {rule}: {count}")?;
        }
        Ok(())
    }
}
