//! Tests of the library, by module.

mod ablate;
#[path = "../tests/canned/mod.rs"]
mod canned;
mod citation;
mod compressed_snapshot;
mod config;
mod current_reports;
mod debate;
mod diff;
mod edgar;
mod edgar_http;
mod events;
mod faults;
mod fence;
mod finding;
mod folder;
mod models;
mod moves;
mod no_news;
mod offline;
mod page_words;
mod plan;
mod prompt;
mod rank;
mod report;
mod resume;
mod run;
mod sample;
mod sandboxes;
mod score;
mod snapshot;
mod summaries;
mod synthetic;
mod ticker;
mod transcript;
mod watch;
