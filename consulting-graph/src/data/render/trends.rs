//! Renders the trends of the figures and the filing events, for companies without news.

use super::{
    super::{
        company::Company,
        filing,
        statement::Period,
        trend::{self, Trend},
    },
    layout::{header, push_section},
    table::table,
};

/// The sections of the document on trends and filings, in order.
const SECTIONS: [&str; 4] =
    ["Quarterly Trends", "Annual Trends", "Direction of the Figures", "Filing Events"];

/// Renders the document on trends and filings as Markdown.
pub(super) fn trends(company: &Company) -> String {
    let mut text = header(company, "Trends and filings");
    text.push_str(
        "The source has no news, forum threads, prediction markets, competitors or analyst ratings. The sections below \
         are computed from the figures and from their filing dates.\n",
    );
    if !company.current_reports.is_empty() {
        text.push_str(
            "Filings of form 8-K are listed with their dates and the titles of their items. Their texts were not read.\n",
        );
    }
    let (quarterly, annual) = (trend::quarterly(company), trend::annual(company));
    let sentences: String = quarterly
        .iter()
        .chain(&annual)
        .filter_map(Trend::sentence)
        .map(|it| format!("- {it}\n"))
        .collect();
    let filings: String = filing::events(company)
        .iter()
        .map(|it| format!("- {}: {}.\n", it.filed, it.text))
        .collect();
    let bodies = [by_period(&quarterly), by_period(&annual), sentences, filings];
    for (name, body) in SECTIONS.iter().zip(&bodies) {
        push_section(&mut text, name, body);
    }
    text
}

/// Renders one row per trend and one column per period.
fn by_period(trends: &[Trend]) -> String {
    let mut periods: Vec<Period> =
        trends.iter().flat_map(|it| it.points.iter().map(|point| point.0)).collect();
    periods.sort_by_key(|it| (it.year, it.quarter));
    periods.dedup();
    let header: Vec<String> =
        ["Figure".to_owned()].into_iter().chain(periods.iter().map(Period::to_string)).collect();
    let row = |trend: &Trend| {
        let cell = |period: &Period| {
            let point = trend.points.iter().find(|it| it.0 == *period);
            point.map_or_else(|| "-".to_owned(), |it| it.1.to_string())
        };
        [trend.name.to_owned()].into_iter().chain(periods.iter().map(cell)).collect()
    };
    table(&header, &trends.iter().map(row).collect::<Vec<Vec<String>>>())
}
