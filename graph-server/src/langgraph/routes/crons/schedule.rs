//! Cron expressions and time zones.

use chrono::{DateTime, NaiveDateTime, Utc};
use chrono_tz::Tz;
use croner::parser::{CronParser, Seconds, Year};

use crate::langgraph::{
    error::{ApiError, ApiResult},
    records::Cron,
};

/// Returns the first time after `now` at which a cron starts a run. Returns `None` if the cron ends before this
/// time.
pub(super) fn next_date(cron: &Cron, now: DateTime<Utc>) -> ApiResult<Option<String>> {
    let invalid = |error: &dyn std::fmt::Display| {
        ApiError::invalid(format!(
            "invalid schedule `{}`: {error}; it needs five fields: minute, hour, day of month, month, day of week",
            cron.schedule
        ))
    };
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let schedule = parser.parse(&cron.schedule).map_err(|error| invalid(&error))?;
    let zone = match &cron.timezone {
        None => Tz::UTC,
        Some(name) => name.parse::<Tz>().map_err(|_| {
            ApiError::invalid(format!(
                "unknown time zone `{name}`; use an IANA name, such as `Europe/Berlin`"
            ))
        })?,
    };
    let next = schedule.find_next_occurrence(&now.with_timezone(&zone), false);
    let next = next.map_err(|error| invalid(&error))?.with_timezone(&Utc);
    let end = cron.end_time.as_deref().map(parse_time).transpose()?;
    Ok(Some(next).filter(|it| end.is_none_or(|end| *it <= end)).map(|it| it.to_rfc3339()))
}

/// Parses a time. A time without an offset is in UTC.
pub(super) fn parse_time(text: &str) -> ApiResult<DateTime<Utc>> {
    let with_offset = DateTime::parse_from_rfc3339(text).map(|it| it.with_timezone(&Utc));
    let naive = || text.parse::<NaiveDateTime>().map(|it| it.and_utc());
    with_offset.or_else(|_| naive()).map_err(|_| {
        ApiError::invalid(format!(
            "invalid time `{text}`: it must have the form 2030-01-31T12:00:00+00:00"
        ))
    })
}
