//! The log `transition.ndjson`: only ever appended to, each line bound to all before it.
//!
//! A line ends with the SHA-256 of the line before it and its own text. That shows every change but one: lines
//! cut off at the end. So the gate also remembers the end itself, before and after each line is written; only a crash
//! between the two leaves open whether the last line is there.
//!
//! A line outlives a power cut, and the memory that it is coming does before it: one without the other would look as
//! if somebody had changed the log. That the line is there now is remembered too, but need not outlive a power cut.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    confine::{Folder, Keep},
    digest::Digest,
    error::Error,
    head::Head,
};

/// The log's file.
pub(crate) const LOG: &str = "transition.ndjson";

/// What to do where the log's end is not what the gate remembers.
pub(crate) const GO_ON: &str = "look at it, and go on with `draft-gate verify --acknowledge-loss`";

/// What to do where the end is as it should be, and something before it is not.
const RESTORE: &str =
    "its end is whole, so the gate works on; bring what is before that back from a copy";

/// Most lines are shorter than this; for a longer one more is read.
const USUAL_LINE: u64 = 4 << 10;

/// What happened, as a line says it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Record {
    /// The line's number, from 1.
    pub seq: u64,
    /// When, as RFC 3339.
    pub timestamp: String,
    /// Who: a worker, or whoever decided.
    pub agent_id: String,
    /// What: `requested`, `written`, `submitted`, `accepted` and so on.
    pub event: String,
    /// For which task.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// Whatever else belongs to the event.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What a look at the whole log came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// How many lines there are.
    pub lines: u64,
    /// The digest of the last, which stands for all of them: keep it elsewhere to notice a log that was written anew.
    pub head: Option<Digest>,
}

/// The log, for who holds the gate's lock.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    /// Where the log lies.
    pub(crate) handoff: &'a Folder,
    /// Where its end is remembered.
    pub(crate) gate: &'a Folder,
}

impl Log<'_> {
    /// Adds a line.
    pub(crate) fn append(&self, event: NewRecord<'_>) -> Result<(), Error> {
        let head = self.end()?;
        let record = Record {
            seq: head.seq + 1,
            timestamp: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            agent_id: event.agent.to_owned(),
            event: event.event.to_owned(),
            task_id: event.task.to_owned(),
            more: event.more,
        };
        let body = serde_json::to_string(&record).expect("a record is plain data");
        let (line, hash) = sealed(head.hash, &body);
        let head = head.expecting(hash).store(self.gate, Keep::ThroughPowerCut)?;
        self.handoff.append(LOG, line.as_bytes(), Keep::ThroughPowerCut)?;
        if record.seq == 1 {
            self.handoff.sync()?;
        }
        head.followed_by(record.seq, Some(hash)).store(self.gate, Keep::ThroughCrash)?;
        Ok(())
    }

    /// The number of the last line, which must be the one that the gate remembers.
    pub(crate) fn length(&self) -> Result<u64, Error> {
        Ok(self.end()?.seq)
    }

    /// The lines behind the one of this number, the newest first.
    pub(crate) fn since(&self, seq: u64) -> Result<Vec<Record>, Error> {
        let mut most = USUAL_LINE;
        loop {
            let Some((text, length)) = self.handoff.tail(LOG, most)? else { return Ok(vec![]) };
            let is_all = text.len() as u64 == length;
            // Where the beginning is left out the first line is half a line.
            let lines = text.split(|byte| *byte == b'\n').skip(usize::from(!is_all));
            let lines = lines.filter_map(|it| str::from_utf8(it).ok());
            let mut records: Vec<Record> =
                lines.filter_map(|it| parse(it).ok()).map(|(record, _)| record).collect();
            if is_all || records.first().is_some_and(|it| it.seq <= seq + 1) {
                records.retain(|it| it.seq > seq);
                records.reverse();
                return Ok(records);
            }
            most = most.saturating_mul(4);
        }
    }

    /// Reads the whole log, and fails at the first line that is not what the gate wrote.
    pub(crate) fn verify(&self) -> Result<Verified, Error> {
        self.verify_lines().map_err(|it| self.advised(it))
    }

    /// Where the end is whole, to acknowledge a loss would change nothing.
    fn advised(&self, error: Error) -> Error {
        match error {
            Error::Log { fault, .. } if self.end().is_ok() => Error::Log { fault, advice: RESTORE },
            other => other,
        }
    }

    fn verify_lines(&self) -> Result<Verified, Error> {
        let head = Head::load(self.gate)?;
        if head.next.is_some() {
            self.end()?;
        }
        let mut last = None;
        let mut lines = 0;
        let text = self.text()?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(log_fault("its last line has no end".to_owned()));
        }
        for line in text.split_terminator('\n') {
            let (record, hash) = parse(line)?;
            lines += 1;
            if record.seq != lines {
                return Err(log_fault(format!("line {lines} has the number {}", record.seq)));
            }
            let body = body_of(line).unwrap_or_default();
            if sealed(last, &body).1 != hash {
                return Err(log_fault(format!("line {lines} or one before it was changed")));
            }
            last = Some(hash);
        }
        self.compare(&head, lines, last)?;
        Ok(Verified { lines, head: last })
    }

    /// All records, without a look at the chain.
    pub(crate) fn records(&self) -> Result<Vec<Record>, Error> {
        let text = self.text().map_err(|it| self.advised(it))?;
        let records = text.lines().map(|line| parse(line).map(|(record, _)| record));
        records.collect::<Result<_, _>>().map_err(|it| self.advised(it))
    }

    /// Whether a line has this digest.
    pub(crate) fn has_line(&self, hash: &str) -> Result<bool, Error> {
        let text = self.text()?;
        Ok(text.lines().any(|line| parse(line).is_ok_and(|(_, it)| it.to_string() == hash)))
    }

    /// Goes on after a loss that a person has looked at: the loss stays visible as a line of its own.
    ///
    /// What is no line at the log's end goes, and a memory that cannot be read counts as none: this is the way out of
    /// whatever a power cut or a full disk left.
    pub(crate) fn acknowledge_loss(&self, agent: &str) -> Result<(), Error> {
        let head = match Head::load(self.gate) {
            Err(Error::Log { .. }) => Head::default(),
            other => other?,
        };
        let (mut bytes, length) = self.handoff.tail(LOG, u64::MAX)?.unwrap_or_default();
        let end = loop {
            let end = last_line(&bytes).and_then(|it| parse(it).ok());
            if end.is_some() || bytes.is_empty() {
                break end;
            }
            let inner = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            bytes.truncate(inner.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        };
        let n_cut = length - bytes.len() as u64;
        if n_cut > 0 {
            self.handoff.cut(LOG, bytes.len() as u64)?;
        }
        let seq = end.as_ref().map_or(0, |(record, _)| record.seq);
        head.followed_by(seq, end.map(|(_, hash)| hash)).start_over(self.gate)?;
        let more = record_fields([
            ("expected_line", head.seq.into()),
            ("expected_hash", head.hash.map(|it| it.to_string()).into()),
            ("cut_bytes", n_cut.into()),
        ]);
        self.append(NewRecord { agent, event: "loss_acknowledged", task: "", more })
    }

    /// The log's end, with the whole of its last line, and the log's length.
    fn tail(&self) -> Result<Option<(Vec<u8>, u64)>, Error> {
        let mut most = USUAL_LINE;
        loop {
            let Some((text, length)) = self.handoff.tail(LOG, most)? else { return Ok(None) };
            let inner = text.strip_suffix(b"\n").unwrap_or(&text);
            if text.len() as u64 == length || inner.contains(&b'\n') {
                return Ok(Some((text, length)));
            }
            most = most.saturating_mul(4);
        }
    }

    fn text(&self) -> Result<String, Error> {
        let tail = self.handoff.tail(LOG, u64::MAX)?;
        let bytes = tail.map_or_else(Vec::new, |(bytes, _)| bytes);
        String::from_utf8(bytes).map_err(|_| log_fault("it is not UTF-8".to_owned()))
    }

    /// The log's end, which must be what the gate remembers.
    fn end(&self) -> Result<Head, Error> {
        let head = Head::load(self.gate)?;
        let Some((text, length)) = self.tail()? else {
            self.compare(&head, 0, None)?;
            return Ok(head.followed_by(0, None));
        };
        // The half of a line that a crash left: only where one was being written.
        if head.next.is_some() && !text.is_empty() && !text.ends_with(b"\n") {
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.handoff.cut(LOG, length - (text.len() - whole) as u64)?;
            // The line before it may have been read in part.
            return self.end();
        }
        let (seq, hash) = match last_line(&text) {
            Some(line) => parse(line).map(|(record, hash)| (record.seq, Some(hash)))?,
            None => (0, None),
        };
        self.compare(&head, seq, hash)?;
        Ok(head.followed_by(seq, hash))
    }

    fn compare(&self, head: &Head, seq: u64, hash: Option<Digest>) -> Result<(), Error> {
        let is_last = seq == head.seq && hash == head.hash;
        let is_next = head.next.is_some() && hash == head.next && seq == head.seq + 1;
        if is_last || is_next {
            return Ok(());
        }
        let fault = if seq < head.seq {
            format!("it ends with line {seq}, and the gate wrote {}", head.seq)
        } else if seq > head.seq {
            format!("it has {seq} lines, and the gate wrote {}", head.seq)
        } else {
            format!("line {seq} is not the one that the gate wrote")
        };
        Err(log_fault(fault))
    }
}

/// A line to be written.
#[derive(Debug)]
pub(crate) struct NewRecord<'a> {
    pub(crate) agent: &'a str,
    pub(crate) event: &'a str,
    pub(crate) task: &'a str,
    pub(crate) more: Map<String, Value>,
}

/// Fields of an event, in the order of their names.
pub(crate) fn record_fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let sorted: BTreeMap<&str, Value> = fields.into_iter().collect();
    sorted.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The line of a body, with the digest that binds it to the one before.
fn sealed(last: Option<Digest>, body: &str) -> (String, Digest) {
    let prev = last.map_or_else(String::new, |it| it.to_string());
    let hash = Digest::of(format!("{prev}\n{body}").as_bytes());
    let open = body.strip_suffix('}').unwrap_or(body);
    (format!("{open},\"hash\":\"{hash}\"}}\n"), hash)
}

/// The part of a line that its digest covers.
fn body_of(line: &str) -> Option<String> {
    let (open, _) = line.rsplit_once(",\"hash\":\"")?;
    Some(format!("{open}}}"))
}

fn parse(line: &str) -> Result<(Record, Digest), Error> {
    let fault = || {
        let start: String = line.chars().take(40).collect();
        log_fault(format!("`{start}…` is no line of it"))
    };
    let (_, hash) = line.rsplit_once(",\"hash\":\"").ok_or_else(fault)?;
    let hash = hash.strip_suffix("\"}").and_then(|it| it.parse().ok()).ok_or_else(fault)?;
    let body = body_of(line).ok_or_else(fault)?;
    Ok((serde_json::from_str(&body).map_err(|_| fault())?, hash))
}

fn last_line(text: &[u8]) -> Option<&str> {
    let text = text.strip_suffix(b"\n")?;
    let start = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    str::from_utf8(&text[start..]).ok()
}

fn log_fault(fault: String) -> Error {
    Error::Log { fault, advice: GO_ON }
}
