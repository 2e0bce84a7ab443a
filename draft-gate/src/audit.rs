//! The append-only log `transition.ndjson`, whose lines form a hash chain.
//!
//! Each line ends with a SHA-256 hash of the previous line's hash and the line's own text. The chain reveals every
//! modification except truncation at the end. The gate therefore also stores the end of the log and its length in
//! `head.json`, both before and after it writes a line. Only a crash between these two writes leaves open whether the
//! last line exists.
//!
//! Before the gate writes a line, it checks the length of the log and the text of the last line. It therefore notices
//! lines that were added or removed anywhere. Changes that keep the length are noticed by [`Log::verify`], which reads
//! the whole log.
//!
//! `head.json` first announces a line, and the announcement is synced before the line itself is written and synced.
//! Otherwise a power failure would look like tampering. The confirmation in `head.json` after the line need not survive
//! a power failure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    confine::{Dir, Durability},
    digest::Digest,
    error::Error,
    log_head::{LogEnd, LogHead, corrupt_log},
};

pub(crate) const LOG: &str = "transition.ndjson";

/// Name under which the gate itself appears in the log.
pub(crate) const GATE_AGENT: &str = "draft-gate";

/// Advice in the error message if the end of the log is intact but an earlier line is not.
const RESTORE_ADVICE: &str =
    "its end is intact, so the gate keeps working; restore the earlier lines from a copy";

/// Number of bytes in the first read from the end of the log. If the last line is longer, more bytes are read.
const INITIAL_READ: u64 = 4 << 10;

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Record {
    /// Line number, starting at 1.
    pub seq: u64,
    /// Time of the event, in RFC 3339 format.
    pub timestamp: String,
    /// Worker or reviewer that caused the event.
    pub agent_id: String,
    /// Kind of event: `requested`, `written`, `submitted`, `accepted` and so on.
    pub event: String,
    /// Id of the task that the event belongs to. Empty if the event belongs to no task.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// Further fields, which depend on the kind of event.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogVerification {
    pub lines: u64,
    /// Hash of the last line. Because of the hash chain, it depends on all lines, so a copy that is stored elsewhere
    /// reveals whether the log was rewritten.
    pub head: Option<Digest>,
}

/// Reads and writes the log. The caller must hold the gate's lock.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    /// Directory that contains the log.
    pub(crate) handoff: &'a Dir,
    /// Directory that contains `head.json`.
    pub(crate) gate: &'a Dir,
}

impl Log<'_> {
    pub(crate) fn append(&self, event: NewRecord<'_>) -> Result<(), Error> {
        let (head, end) = self.verified_end()?;
        let record = Record {
            seq: end.seq + 1,
            timestamp: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            agent_id: event.agent.to_owned(),
            event: event.event.to_owned(),
            task_id: event.task.to_owned(),
            more: event.more,
        };
        let body = serde_json::to_string(&record).expect("a record serializes to JSON");
        let (line, hash) = seal_line(end.hash, &body);
        let next = LogEnd {
            seq: record.seq,
            hash: Some(hash),
            previous: end.hash,
            bytes: end.bytes + line.len() as u64,
        };
        let head = head.advanced_to(&end).with_next(&next);
        let head = head.store(self.gate, Durability::PowerLoss)?;
        self.handoff.append(LOG, line.as_bytes(), Durability::PowerLoss)?;
        if record.seq == 1 {
            self.handoff.sync()?;
        }
        head.advanced_to(&next).store(self.gate, Durability::ProcessCrash)?;
        Ok(())
    }

    /// Checks the end of the log against `head.json` and returns the number of the last line.
    pub(crate) fn length(&self) -> Result<u64, Error> {
        Ok(self.verified_end()?.1.seq)
    }

    /// Returns the lines after line `seq`, newest first.
    pub(crate) fn since(&self, seq: u64) -> Result<Vec<Record>, Error> {
        let mut max_bytes = INITIAL_READ;
        loop {
            let Some((text, length)) = self.handoff.tail(LOG, max_bytes)? else {
                return Ok(vec![]);
            };
            let is_all = text.len() as u64 == length;
            // If the file was not read from its start, the first line is incomplete and must be skipped.
            let lines = text.split(|byte| *byte == b'\n').skip(usize::from(!is_all));
            let lines = lines.filter_map(|it| str::from_utf8(it).ok());
            let mut records: Vec<Record> =
                lines.filter_map(|it| parse(it).ok()).map(|(record, _)| record).collect();
            if is_all || records.first().is_some_and(|it| it.seq <= seq + 1) {
                records.retain(|it| it.seq > seq);
                records.reverse();
                return Ok(records);
            }
            max_bytes = max_bytes.saturating_mul(4);
        }
    }

    /// Verifies the whole log. Fails at the first line that the gate did not write.
    pub(crate) fn verify(&self) -> Result<LogVerification, Error> {
        self.verify_lines().map_err(|it| self.with_advice(it))
    }

    /// If the end of the log is intact, replaces the advice in the error (to acknowledge a loss) with the advice to
    /// restore the earlier lines, because acknowledging a loss fixes only the end of the log.
    fn with_advice(&self, error: Error) -> Error {
        match error {
            Error::CorruptLog { fault, .. } if self.verified_end().is_ok() => {
                Error::CorruptLog { fault, advice: RESTORE_ADVICE }
            }
            other => other,
        }
    }

    fn verify_lines(&self) -> Result<LogVerification, Error> {
        let head = LogHead::load(self.gate)?;
        if head.next.is_some() {
            self.verified_end()?;
        }
        let text = self.text()?;
        let mut end = LogEnd { bytes: text.len() as u64, ..LogEnd::default() };
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(corrupt_log("its last line is incomplete".to_owned()));
        }
        for line in text.split_terminator('\n') {
            let (record, hash) = parse(line)?;
            end.seq += 1;
            let number = end.seq;
            if record.seq != number {
                return Err(corrupt_log(format!("line {number} has the number {}", record.seq)));
            }
            if !is_sealed(end.hash, line) {
                return Err(corrupt_log(format!("line {number} or an earlier one was changed")));
            }
            (end.previous, end.hash) = (end.hash, Some(hash));
        }
        head.check(&end)?;
        Ok(LogVerification { lines: end.seq, head: end.hash })
    }

    /// Returns all records without verifying the hash chain.
    pub(crate) fn records(&self) -> Result<Vec<Record>, Error> {
        let text = self.text().map_err(|it| self.with_advice(it))?;
        let records = text.lines().map(|line| parse(line).map(|(record, _)| record));
        records.collect::<Result<_, _>>().map_err(|it| self.with_advice(it))
    }

    pub(crate) fn has_line(&self, hash: &str) -> Result<bool, Error> {
        let text = self.text()?;
        Ok(text.lines().any(|line| parse(line).is_ok_and(|(_, it)| it.to_string() == hash)))
    }

    /// Accepts the current end of the log after a person has inspected it, and records the loss as a line.
    ///
    /// Removes invalid bytes at the end of the log, and treats an unreadable `head.json` as empty. This recovers from
    /// any state that a power failure or a full disk can leave.
    pub(crate) fn acknowledge_loss(&self, agent: &str) -> Result<(), Error> {
        let head = match LogHead::load(self.gate) {
            Err(Error::CorruptLog { .. }) => LogHead::default(),
            other => other?,
        };
        let (mut bytes, length) = self.handoff.tail(LOG, u64::MAX)?.unwrap_or_default();
        // If the lines that the gate wrote are still there, keep only lines after them that continue the hash chain.
        let written = head.bytes.and_then(|it| readable_end(bytes.get(..it as usize)?));
        if let Some(written) = written.filter(|it| it.hash == head.hash) {
            bytes.truncate(chain_end(&bytes, written) as usize);
        }
        let end = loop {
            let end = readable_end(&bytes);
            if end.is_some() || bytes.is_empty() {
                break end.unwrap_or_default();
            }
            bytes.truncate(start_of_last_line(&bytes));
        };
        let n_cut = length - bytes.len() as u64;
        if n_cut > 0 {
            self.handoff.truncate(LOG, bytes.len() as u64)?;
        }
        head.advanced_to(&end).reset(self.gate)?;
        let more = record_fields([
            ("expected_line", head.seq.into()),
            ("expected_hash", head.hash.map(|it| it.to_string()).into()),
            ("cut_bytes", n_cut.into()),
        ]);
        self.append(NewRecord { agent, event: "loss_acknowledged", task: "", more })
    }

    /// Returns the last bytes of the log, including at least the complete last line, and the length of the whole log in
    /// bytes.
    fn tail(&self) -> Result<Option<(Vec<u8>, u64)>, Error> {
        let mut max_bytes = INITIAL_READ;
        loop {
            let Some((text, length)) = self.handoff.tail(LOG, max_bytes)? else { return Ok(None) };
            let inner = text.strip_suffix(b"\n").unwrap_or(&text);
            if text.len() as u64 == length || inner.contains(&b'\n') {
                return Ok(Some((text, length)));
            }
            max_bytes = max_bytes.saturating_mul(4);
        }
    }

    fn text(&self) -> Result<String, Error> {
        let tail = self.handoff.tail(LOG, u64::MAX)?;
        let bytes = tail.map_or_else(Vec::new, |(bytes, _)| bytes);
        String::from_utf8(bytes).map_err(|_| corrupt_log("it is not UTF-8".to_owned()))
    }

    /// Returns the stored head and the end of the log after checking one against the other. Removes an incomplete last
    /// line that a crash left.
    fn verified_end(&self) -> Result<(LogHead, LogEnd), Error> {
        let head = LogHead::load(self.gate)?;
        let (text, length) = self.tail()?.unwrap_or_default();
        // A crash left an incomplete line. This is possible only if `head.json` announced a line.
        if head.next.is_some() && !text.is_empty() && !text.ends_with(b"\n") {
            let complete_bytes = start_of_last_line(&text);
            self.handoff.truncate(LOG, length - (text.len() - complete_bytes) as u64)?;
            // Start again, because the previous line may have been read only in part.
            return self.verified_end();
        }
        let mut end = LogEnd { bytes: length, ..LogEnd::default() };
        let line = last_line(&text);
        if let Some(line) = line {
            let (record, hash) = parse(line)?;
            (end.seq, end.hash) = (record.seq, Some(hash));
            end.previous = if head.seq == end.seq { head.previous } else { head.hash };
        }
        head.check(&end)?;
        // The hash of the line before the last one is unknown if an earlier version stored the head, or if that line
        // was lost.
        let is_known = end.previous.is_some() || end.seq == 1;
        if is_known && line.is_some_and(|it| !is_sealed(end.previous, it)) {
            return Err(corrupt_log(format!("line {} was changed", end.seq)));
        }
        Ok((head, end))
    }
}

#[derive(Debug)]
pub(crate) struct NewRecord<'a> {
    pub(crate) agent: &'a str,
    pub(crate) event: &'a str,
    pub(crate) task: &'a str,
    pub(crate) more: Map<String, Value>,
}

/// Builds the fields of an event, sorted by name.
pub(crate) fn record_fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let sorted: BTreeMap<&str, Value> = fields.into_iter().collect();
    sorted.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Builds a log line from its body and the hash of the previous line. Returns the line and its hash.
fn seal_line(last: Option<Digest>, body: &str) -> (String, Digest) {
    let prev = last.map_or_else(String::new, |it| it.to_string());
    let hash = Digest::of(format!("{prev}\n{body}").as_bytes());
    let open = body.strip_suffix('}').unwrap_or(body);
    (format!("{open},\"hash\":\"{hash}\"}}\n"), hash)
}

/// Returns whether a line has the hash that follows from its body and the hash of the previous line.
fn is_sealed(last: Option<Digest>, line: &str) -> bool {
    body_of(line).is_some_and(|body| seal_line(last, &body).0.trim_end_matches('\n') == line)
}

/// Returns the body of a line, which is the line without its field `hash`.
fn body_of(line: &str) -> Option<String> {
    let (open, _) = line.rsplit_once(",\"hash\":\"")?;
    Some(format!("{open}}}"))
}

fn parse(line: &str) -> Result<(Record, Digest), Error> {
    let fault = || {
        let start: String = line.chars().take(40).collect();
        corrupt_log(format!("`{start}…` is not a valid line"))
    };
    let (_, hash) = line.rsplit_once(",\"hash\":\"").ok_or_else(fault)?;
    let hash = hash.strip_suffix("\"}").and_then(|it| it.parse().ok()).ok_or_else(fault)?;
    let body = body_of(line).ok_or_else(fault)?;
    Ok((serde_json::from_str(&body).map_err(|_| fault())?, hash))
}

fn last_line(text: &[u8]) -> Option<&str> {
    let start = start_of_last_line(text);
    str::from_utf8(text[start..].strip_suffix(b"\n")?).ok()
}

fn start_of_last_line(text: &[u8]) -> usize {
    let inner = text.strip_suffix(b"\n").unwrap_or(text);
    inner.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// Returns the length of the log up to the last line that continues the hash chain after `start`.
fn chain_end(text: &[u8], start: LogEnd) -> u64 {
    let mut end = start;
    for line in text[start.bytes as usize..].split_inclusive(|byte| *byte == b'\n') {
        let parsed =
            last_line(line).filter(|it| is_sealed(end.hash, it)).and_then(|it| parse(it).ok());
        match parsed {
            Some((record, hash)) if record.seq == end.seq + 1 => {
                end.seq = record.seq;
                end.hash = Some(hash);
                end.bytes += line.len() as u64;
            }
            _ => break,
        }
    }
    end.bytes
}

/// Returns the end of a log whose last line is valid and continues the line before it.
fn readable_end(text: &[u8]) -> Option<LogEnd> {
    let line = last_line(text)?;
    let (record, hash) = parse(line).ok()?;
    let before = last_line(&text[..start_of_last_line(text)]).and_then(|it| parse(it).ok());
    let end = LogEnd {
        seq: record.seq,
        hash: Some(hash),
        previous: before.as_ref().map(|it| it.1),
        bytes: text.len() as u64,
    };
    let continues = |(before, hash): (Record, Digest)| {
        record.seq == before.seq + 1 && is_sealed(Some(hash), line)
    };
    before.is_none_or(continues).then_some(end)
}
