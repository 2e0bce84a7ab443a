//! Computes due dates from the timeframes of steps.

use chrono::{Days, Months, NaiveDate};

/// Returns the date at the end of a timeframe such as `within 3 months`, or `None` if it names no length of time.
pub(super) fn due_date(from: NaiveDate, timeframe: &str) -> Option<NaiveDate> {
    let words: Vec<&str> = timeframe.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let [n, unit] = pair else { return None };
        let n: u32 = n.parse().ok()?;
        let unit = unit.trim_end_matches(|it: char| !it.is_alphabetic()).trim_end_matches('s');
        match unit {
            "day" => from.checked_add_days(Days::new(n.into())),
            "week" => from.checked_add_days(Days::new(u64::from(n) * 7)),
            "month" => from.checked_add_months(Months::new(n)),
            "quarter" => from.checked_add_months(Months::new(n.checked_mul(3)?)),
            "year" => from.checked_add_months(Months::new(n.checked_mul(12)?)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{NaiveDate, due_date};

    #[test]
    fn timeframes_with_a_length_have_a_due_date() {
        let from = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap();
        for (timeframe, due) in [
            ("within 6 weeks", Some("2026-12-27")),
            ("start within 4 months", Some("2027-03-15")),
            ("in 2 quarters.", Some("2027-05-15")),
            ("30 days after approval", Some("2026-12-15")),
            ("within 4000000000 years", None),
            ("every quarter", None),
            ("", None),
        ] {
            assert_eq!(
                due_date(from, timeframe).map(|it| it.to_string()).as_deref(),
                due,
                "{timeframe}"
            );
        }
    }
}
