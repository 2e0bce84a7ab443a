//! A worker's four tools: request, write, read, submit.
//!
//! What a worker says is checked against what the gate knows of its drafts. What is refused because it looks like an
//! attempt to get past the gate goes to the log.

use crate::{
    apply::Journal,
    blob,
    confine::{Keep, random_hex},
    diff::{FileDiff, line_count},
    digest::Digest,
    error::{Error, shown},
    gate::{DRAFTS, Gate, Held},
    inbox::{Message, MessageKind, message_id},
    path::{WorkspacePath, plain_name},
    registry::{Change, ChangeSet, Issued, Operation, SetState},
    tool::{Read, Request, Requested, Submission, Submitted, Written},
};

/// The gate's side of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) name: &'a str,
}

/// A summary is cut here: it goes to people and into logs.
const LONGEST_SUMMARY: usize = 500;

/// A change set holds no more drafts than this, whatever its contract says.
const MOST_CHANGES: usize = 200;

impl Worker<'_> {
    /// Copies a file into the sandbox, for this worker alone.
    ///
    /// Asking again for the same file starts over from the file as it is now.
    pub fn request(&self, request: &Request) -> Result<Requested, Error> {
        self.guarded(&request.task_id, |held| self.request_held(held, request))
    }

    /// Puts content into a draft.
    pub fn write(&self, draft_path: &str, content: &str) -> Result<Written, Error> {
        self.guarded("", |held| {
            let issued = self.open_draft(held, draft_path)?;
            if issued.operation == Operation::Delete {
                return Err(Error::NotAllowed {
                    reason: "a draft for a deletion has no content".to_owned(),
                });
            }
            if content.contains('\0') {
                return Err(Error::NotText { path: issued.name });
            }
            let limit = self.gate.contract()?.draft_gate.max_draft_bytes;
            if content.len() as u64 > limit {
                return Err(Error::TooLarge { path: issued.name, limit });
            }
            held.drafts()?.replace(
                &issued.name,
                content.as_bytes().to_vec(),
                Keep::ThroughCrash,
            )?;
            let new_hash = Digest::of(content.as_bytes()).to_string();
            let fields = [("draft", issued.name.into()), ("hash_after", new_hash.clone().into())];
            held.note(self.name, "written", &issued.task, fields)?;
            Ok(Written { success: true, new_hash, line_count: line_count(content) })
        })
    }

    /// Reads a draft back.
    pub fn read(&self, draft_path: &str) -> Result<Read, Error> {
        self.guarded("", |held| {
            let issued = self.issued(held, draft_path)?;
            let content = self.text_of(held, &issued)?;
            Ok(Read { line_count: line_count(&content), content })
        })
    }

    /// Freezes a draft and hands it in. [`Gate::judge`] decides on its change set once that is complete.
    pub fn submit(&self, submission: &Submission) -> Result<Submitted, Error> {
        self.guarded(&submission.task_id, |held| self.submit_held(held, submission))
    }

    /// Does something under the lock, and logs what looks like an attempt to get past the gate.
    fn guarded<T>(
        &self,
        task: &str,
        act: impl FnOnce(&Held<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let held = self.gate.enter()?;
        let result = act(&held);
        if let Err(error) = &result
            && error.is_violation()
        {
            let task = plain_name(task, "task id").unwrap_or_default();
            held.note(self.name, "violation", task, [("reason", error.to_string().into())])?;
        }
        result
    }

    fn request_held(&self, held: &Held<'_>, request: &Request) -> Result<Requested, Error> {
        let path = WorkspacePath::parse(&request.source_path)?.unprotected()?;
        let task = plain_name(&request.task_id, "task id")?;
        let contract = self.gate.contract()?;
        contract.allow(request.operation, &path)?;
        let original =
            self.original(&path, request.operation, contract.draft_gate.max_draft_bytes)?;
        let name = self.free_name(held, task, &path)?;
        let base = original.as_deref().map(|it| blob::put(&self.gate.blobs, it.as_bytes()));
        let base = base.transpose()?;
        let start = if request.restore { self.rejected_content(task, &path)? } else { original };
        let start = start.unwrap_or_default();
        let issued = Issued {
            name: name.clone(),
            worker: self.name.to_owned(),
            task: task.to_owned(),
            path,
            operation: request.operation,
            base,
            requested_at: chrono::Utc::now().timestamp_millis(),
            set: None,
        };
        self.gate.issued.put(&name, &issued)?;
        let line_count = line_count(&start);
        held.drafts()?.replace(&name, start.into_bytes(), Keep::ThroughCrash)?;
        let original_hash = base.map_or_else(|| "absent".to_owned(), |it| it.to_string());
        let fields = [
            ("draft", name.clone().into()),
            ("path", issued.path.as_str().into()),
            ("operation", request.operation.to_string().into()),
            ("original_hash", original_hash.clone().into()),
        ];
        held.note(self.name, "requested", task, fields)?;
        Ok(Requested {
            draft_path: format!("{DRAFTS}/{name}"),
            original_hash,
            line_count,
            original_path: issued.path.to_string(),
            task_id: issued.task,
        })
    }

    /// The file as it is now, where it has to be there.
    fn original(
        &self,
        path: &WorkspacePath,
        operation: Operation,
        limit: u64,
    ) -> Result<Option<String>, Error> {
        let content = self.gate.root.read(path.as_str(), limit)?;
        let missing = || Error::Missing { path: path.to_string() };
        match operation {
            Operation::Edit | Operation::Delete => {
                let text = String::from_utf8(content.ok_or_else(missing)?.bytes);
                text.map(Some).map_err(|_| Error::NotText { path: path.to_string() })
            }
            Operation::Create if content.is_some() => {
                Err(Error::Exists { path: path.to_string(), what: "" })
            }
            Operation::Create => {
                self.refuse_twin(path)?;
                Ok(None)
            }
        }
    }

    /// Two names that differ in case alone are one file on other systems.
    fn refuse_twin(&self, path: &WorkspacePath) -> Result<(), Error> {
        let mut folder = self.gate.root.folder("")?;
        let mut components = path.as_str().split('/').peekable();
        while let Some(name) = components.next() {
            let lower = name.to_lowercase();
            let names = folder.names()?;
            if names.iter().any(|it| it != name && it.to_lowercase() == lower) {
                return Err(Error::Exists {
                    path: path.to_string(),
                    what: " in other letter case",
                });
            }
            if components.peek().is_none() || !names.iter().any(|it| it == name) {
                return Ok(());
            }
            folder = folder.folder(name)?;
        }
        Ok(())
    }

    /// The document's name where it is free or ours; one with a hash where another worker or file has it.
    fn free_name(
        &self,
        held: &Held<'_>,
        task: &str,
        path: &WorkspacePath,
    ) -> Result<String, Error> {
        let hash = Digest::of(format!("{}\n{path}", self.name).as_bytes()).short();
        let base: String = path.name().chars().take(40).collect();
        let plain = format!("{}.{task}.draft", path.name());
        let hashed = format!("{base}.{hash}.{task}.draft");
        let is_short = plain.len() <= 200;
        for name in [&hashed, &plain] {
            let Some(issued) = held.gate.issued.get::<Issued>(name)? else { continue };
            if issued.worker == self.name && issued.task == task && issued.path == *path {
                return match issued.set {
                    None => Ok(name.clone()),
                    Some(_) => Err(Error::Submitted { draft: name.clone() }),
                };
            }
            if name == &plain {
                return Ok(hashed.clone());
            }
        }
        Ok(if is_short { plain } else { hashed })
    }

    /// The content of this worker's draft that was rejected last.
    fn rejected_content(&self, task: &str, path: &WorkspacePath) -> Result<Option<String>, Error> {
        let content = self.gate.rejected.get::<Digest>(&rejected_key(self.name, task, path))?;
        let content = content
            .ok_or_else(|| Error::Missing { path: format!("a rejected draft of {path}") })?;
        let bytes = blob::get(&self.gate.blobs, content)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn submit_held(&self, held: &Held<'_>, submission: &Submission) -> Result<Submitted, Error> {
        let mut issued = self.open_draft(held, &submission.draft_path)?;
        let forged = |field, given: &str, known: &str| Error::Forged {
            draft: issued.name.clone(),
            field,
            given: shown(given),
            known: known.to_owned(),
        };
        if submission.original_path != issued.path.as_str() {
            return Err(forged("original_path", &submission.original_path, issued.path.as_str()));
        }
        if submission.task_id != issued.task {
            return Err(forged("task_id", &submission.task_id, &issued.task));
        }
        let content = match issued.operation {
            Operation::Delete => None,
            _ => Some(self.text_of(held, &issued)?),
        };
        let frozen = content.as_deref().map(|it| blob::put(&self.gate.blobs, it.as_bytes()));
        let change = Change {
            draft: issued.name.clone(),
            path: issued.path.clone(),
            operation: issued.operation,
            base: issued.base,
            content: frozen.transpose()?,
            summary: shown(
                &submission.change_summary.chars().take(LONGEST_SUMMARY).collect::<String>(),
            ),
        };
        let set = self.add_to_set(&issued.task, change.clone(), submission.more_to_come)?;
        issued.set = Some(set.id.clone());
        self.gate.issued.put(&issued.name, &issued)?;
        self.tell_of(held, &set, &change, content.as_deref().unwrap_or_default())?;
        let ready = self.ready_message(&set);
        if set.state == SetState::Ready {
            held.send(self.name, &ready)?;
        }
        Ok(Submitted {
            set: set.id,
            is_complete: set.state == SetState::Ready,
            message_id: ready.message_id,
        })
    }

    /// Adds a change to the set of its task that is held, or to a new one.
    fn add_to_set(
        &self,
        task: &str,
        change: Change,
        more_to_come: bool,
    ) -> Result<ChangeSet, Error> {
        let held_name = format!("held.{}.{task}", self.name);
        let known: Option<ChangeSet> = self.gate.sets.get(&held_name)?;
        // A crash may have left the set here after it was handed in: its id is taken.
        let known = match known {
            Some(set) if self.is_handed_in(&set.id)? => None,
            known => known,
        };
        let mut set = known.unwrap_or_else(|| ChangeSet {
            id: random_hex(),
            worker: self.name.to_owned(),
            task: task.to_owned(),
            state: SetState::Held,
            changes: vec![],
            submitted_at: chrono::Utc::now().timestamp_millis(),
            found: None,
        });
        if set.changes.len() >= MOST_CHANGES {
            let reason = format!("a change set has at most {MOST_CHANGES} drafts");
            return Err(Error::NotAllowed { reason });
        }
        set.changes.retain(|it| it.draft != change.draft);
        set.changes.push(change);
        if more_to_come {
            self.gate.sets.put(&held_name, &set)?;
        } else {
            set.state = SetState::Ready;
            self.gate.sets.put(&set.id, &set)?;
            self.gate.sets.remove(&held_name)?;
        }
        Ok(set)
    }

    fn is_handed_in(&self, set: &str) -> Result<bool, Error> {
        let is_waiting = self.gate.sets.get::<ChangeSet>(set)?.is_some();
        Ok(is_waiting || self.gate.decided.get::<Journal>(set)?.is_some())
    }

    /// Writes the task's submission file and the log's line.
    fn tell_of(
        &self,
        held: &Held<'_>,
        set: &ChangeSet,
        change: &Change,
        content: &str,
    ) -> Result<(), Error> {
        let base =
            change.base.map(|it| blob::get(&self.gate.blobs, it)).transpose()?.unwrap_or_default();
        let base = String::from_utf8_lossy(&base);
        let diff = FileDiff::new(&base, content);
        held.list_submission(set, change, &diff, line_count(&base), line_count(content));
        let fields = [
            ("draft", change.draft.as_str().into()),
            ("path", change.path.as_str().into()),
            ("set", set.id.as_str().into()),
            ("content", change.content.map(|it| it.to_string()).into()),
            ("added", diff.added.len().into()),
            ("removed", diff.removed.into()),
        ];
        held.note(self.name, "submitted", &set.task, fields)
    }

    fn ready_message(&self, set: &ChangeSet) -> Message {
        Message {
            message_id: message_id(MessageKind::DraftReady, &set.id, ""),
            kind: MessageKind::DraftReady,
            task_id: set.task.clone(),
            set: set.id.clone(),
            paths: set.changes.iter().map(|it| it.path.to_string()).collect(),
            reason: set.changes.last().map(|it| it.summary.clone()).unwrap_or_default(),
            findings: vec![],
        }
    }

    /// The draft's text, read once: whoever changes it later changes nothing.
    fn text_of(&self, held: &Held<'_>, issued: &Issued) -> Result<String, Error> {
        let limit = self.gate.contract()?.draft_gate.max_draft_bytes;
        let content = held.drafts()?.read(&issued.name, limit)?;
        let content =
            content.ok_or_else(|| Error::Missing { path: format!("{DRAFTS}/{}", issued.name) })?;
        let not_text = || Error::NotText { path: issued.name.clone() };
        let text = String::from_utf8(content.bytes).map_err(|_| not_text())?;
        if text.contains('\0') { Err(not_text()) } else { Ok(text) }
    }

    /// A draft of this worker that is not submitted.
    fn open_draft(&self, held: &Held<'_>, draft_path: &str) -> Result<Issued, Error> {
        let issued = self.issued(held, draft_path)?;
        match issued.set {
            None => Ok(issued),
            Some(_) => Err(Error::Submitted { draft: issued.name }),
        }
    }

    /// A draft that was issued to this worker: its name is looked up, and never made into a path.
    fn issued(&self, held: &Held<'_>, draft_path: &str) -> Result<Issued, Error> {
        let path = WorkspacePath::parse(draft_path)?;
        let name = path.as_str().strip_prefix(DRAFTS).and_then(|it| it.strip_prefix('/'));
        let not_issued =
            || Error::NotIssued { draft: path.to_string(), worker: self.name.to_owned() };
        let name = name.filter(|it| !it.contains('/')).ok_or_else(not_issued)?;
        let issued: Option<Issued> = held.gate.issued.get(name)?;
        issued.filter(|it| it.worker == self.name).ok_or_else(not_issued)
    }
}

/// Where the content of a rejected draft is found again.
pub(crate) fn rejected_key(worker: &str, task: &str, path: &WorkspacePath) -> String {
    Digest::of(format!("{worker}\n{task}\n{path}").as_bytes()).short()
}
