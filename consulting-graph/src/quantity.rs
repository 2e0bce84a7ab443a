//! Extracts numbers from prose, with their unit and precision.
//!
//! Not every number is a claim that can be checked against the data. Years, dates, durations, list numbers, ratings out
//! of ten, names that contain digits (`F1-07`, `Q3`, `10-K`, `5G`) and numbers up to ten without a unit are skipped.

mod amount;
mod scan;
mod word;

pub(crate) use amount::{Quantity, Unit};
pub(crate) use scan::{claims, parse_amount};

#[cfg(test)]
mod tests;
