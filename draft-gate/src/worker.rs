//! The worker's tools for drafts: request, write and read.
//!
//! Everything a worker claims is checked against the gate's records. Attempts to bypass the gate are logged.

use crate::{
    blob,
    confine::Durability,
    diff::line_count,
    digest::Digest,
    error::Error,
    escape::escape_for_message,
    gate::{DRAFTS, Gate, LockedGate},
    inbox::Message,
    path::{WorkspacePath, validate_name},
    records::{DraftRecord, Operation},
    secret_name::{ensure_no_secret, name_contains_secret},
    tool::{Draft, DraftContent, DraftRequest, WriteReceipt},
    unicode::visual_key,
};

#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) name: &'a str,
}

/// Maximum number of undecided drafts that a worker may have.
const MAX_OPEN_DRAFTS: usize = 500;

impl Gate {
    pub fn worker<'a>(&'a self, name: &'a str) -> Result<Worker<'a>, Error> {
        Ok(Worker { gate: self, name: validate_name(name, "worker name")? })
    }

    /// Returns the messages to a worker about a task, oldest first. If `after` is the id of a message that still
    /// exists, returns only the messages after it.
    pub fn inbox(
        &self,
        worker: &str,
        task: &str,
        after: Option<&str>,
    ) -> Result<Vec<Message>, Error> {
        self.worker(worker)?.inbox(task, after)
    }
}

impl Worker<'_> {
    /// Issues a draft of a file to this worker.
    ///
    /// Requesting the same file again resets the draft to the current file.
    pub fn request(&self, request: &DraftRequest) -> Result<Draft, Error> {
        self.with_lock(&request.task_id, |locked| self.request_locked(locked, request))
    }

    pub fn write(&self, draft_path: &str, content: &str) -> Result<WriteReceipt, Error> {
        self.with_lock("", |locked| {
            let issued = self.open_draft(locked, draft_path)?;
            if issued.operation == Operation::Delete {
                return Err(Error::NotAllowed {
                    reason:
                        "a draft for a deletion has no content; submit it without writing to it"
                            .to_owned(),
                });
            }
            if content.contains('\0') {
                return Err(Error::NotText { path: issued.name });
            }
            let limit = self.gate.contract()?.draft_gate.max_draft_bytes;
            if content.len() as u64 > limit {
                return Err(Error::TooLarge { path: issued.name, limit });
            }
            locked.drafts()?.replace(
                &issued.name,
                content.as_bytes().to_vec(),
                Durability::ProcessCrash,
            )?;
            let new_hash = Digest::of(content.as_bytes()).to_string();
            let fields = [("draft", issued.name.into()), ("hash_after", new_hash.clone().into())];
            locked.log_event(self.name, "written", &issued.task, fields)?;
            Ok(WriteReceipt { success: true, new_hash, line_count: line_count(content) })
        })
    }

    pub fn read(&self, draft_path: &str) -> Result<DraftContent, Error> {
        self.with_lock("", |locked| {
            let issued = self.issued(locked, draft_path)?;
            let content = self.draft_text(locked, &issued)?;
            Ok(DraftContent { line_count: line_count(&content), content })
        })
    }

    /// Returns the messages to this worker about a task, oldest first. If `after` is the id of a message that still
    /// exists, returns only the messages after it.
    pub fn inbox(&self, task: &str, after: Option<&str>) -> Result<Vec<Message>, Error> {
        self.with_lock(task, |locked| {
            let task = validate_name(task, "task id")?;
            let messages = locked.gate.messages(&format!("{}.{task}", self.name))?;
            let start =
                after.and_then(|after| messages.iter().position(|it| it.message_id == after));
            Ok(messages.into_iter().skip(start.map_or(0, |it| it + 1)).collect())
        })
    }

    /// Runs an operation while holding the lock. Logs the error if it is an attempt to bypass the gate.
    pub(crate) fn with_lock<T>(
        &self,
        task: &str,
        act: impl FnOnce(&LockedGate<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let locked = self.gate.lock()?;
        let result = act(&locked);
        if let Err(error) = &result
            && error.is_violation()
        {
            let task = validate_name(task, "task id").unwrap_or_default();
            let task = if name_contains_secret(task) { "" } else { task };
            let mut reason = error.to_string();
            if name_contains_secret(&reason) {
                reason =
                    "SECURITY: not shown, because the request contains what looks like a secret"
                        .to_owned();
            }
            locked.log_event(self.name, "violation", task, [("reason", reason.into())])?;
        }
        result
    }

    fn request_locked(
        &self,
        locked: &LockedGate<'_>,
        request: &DraftRequest,
    ) -> Result<Draft, Error> {
        let path = WorkspacePath::parse(&request.source_path)?;
        ensure_no_secret(path.as_str(), "path")?;
        let path = path.ensure_unprotected()?;
        let task = validate_name(&request.task_id, "task id")?;
        ensure_no_secret(task, "task id")?;
        let operation = request.operation()?;
        let contract = self.gate.contract()?;
        contract.allow(operation, &path)?;
        let original = self.original(&path, operation, contract.draft_gate.max_draft_bytes)?;
        let name = self.draft_name(locked, task, &path)?;
        self.check_draft_quota(locked, &name)?;
        let base = original.as_deref().map(|it| blob::put(&self.gate.blobs, it.as_bytes()));
        let base = base.transpose()?;
        let start = if request.restore { self.rejected_content(task, &path)? } else { original };
        let start = start.unwrap_or_default();
        let issued = DraftRecord {
            name: name.clone(),
            worker: self.name.to_owned(),
            task: task.to_owned(),
            path,
            operation,
            base,
            requested_at: chrono::Utc::now().timestamp_millis(),
            set: None,
        };
        self.gate.issued.put(&name, &issued, Durability::ProcessCrash)?;
        let line_count = line_count(&start);
        locked.drafts()?.replace(&name, start.into_bytes(), Durability::ProcessCrash)?;
        let original_hash = base.map_or_else(|| "absent".to_owned(), |it| it.to_string());
        let fields = [
            ("draft", name.clone().into()),
            ("path", issued.path.as_str().into()),
            ("operation", operation.to_string().into()),
            ("original_hash", original_hash.clone().into()),
        ];
        locked.log_event(self.name, "requested", task, fields)?;
        Ok(Draft {
            draft_path: format!("{DRAFTS}/{name}"),
            original_hash,
            line_count,
            original_path: issued.path.to_string(),
            task_id: issued.task,
        })
    }

    /// Returns the current content of the file. Fails if the file is missing for an edit or a deletion, or already
    /// exists for a creation.
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
                decode_text(content.ok_or_else(missing)?.bytes, path.as_str()).map(Some)
            }
            Operation::Create if content.is_some() => Err(Error::Exists { path: path.to_string() }),
            Operation::Create => {
                self.check_name_collision(path)?;
                Ok(None)
            }
        }
    }

    /// Fails if a name differs from an existing one only in letter case, because both are the same file on some
    /// systems, or if both names look the same.
    fn check_name_collision(&self, path: &WorkspacePath) -> Result<(), Error> {
        let mut dir = self.gate.root.subdir("")?;
        let mut parent = String::new();
        for name in path.as_str().split('/') {
            let names = dir.names()?;
            let is_similar = |it: &&String| {
                let is_ascii = it.is_ascii() && name.is_ascii();
                *it != name && visual_key(it, is_ascii) == visual_key(name, is_ascii)
            };
            if let Some(existing) = names.iter().find(is_similar) {
                let existing = escape_for_message(&format!("{parent}{existing}"));
                return Err(Error::NameCollision { path: path.to_string(), existing });
            }
            let is_dir =
                names.iter().any(|it| it == name) && format!("{parent}{name}") != path.as_str();
            if !is_dir {
                return Ok(());
            }
            dir = dir.subdir(name)?;
            parent = format!("{parent}{name}/");
        }
        Ok(())
    }

    /// Fails if this worker has too many undecided drafts. Requesting an undecided draft again is always allowed.
    fn check_draft_quota(&self, locked: &LockedGate<'_>, name: &str) -> Result<(), Error> {
        let names = locked.gate.issued.names()?;
        // Counting this worker's drafts requires reading the records of all drafts, so count only if the limit may be
        // exceeded.
        if names.len() < MAX_OPEN_DRAFTS || names.iter().any(|it| it == name) {
            return Ok(());
        }
        let mut n_open = 0;
        for name in names {
            n_open += usize::from(locked.draft(&name)?.is_some_and(|it| it.worker == self.name));
        }
        if n_open < MAX_OPEN_DRAFTS {
            return Ok(());
        }
        let reason = format!(
            "you have {n_open} undecided drafts, and at most {MAX_OPEN_DRAFTS} are allowed; submit some, or wait until submitted ones are decided"
        );
        Err(Error::NotAllowed { reason })
    }

    /// Returns the file name for a draft. The name contains a hash only if the plain name is too long or is already
    /// used for another worker or file.
    fn draft_name(
        &self,
        locked: &LockedGate<'_>,
        task: &str,
        path: &WorkspacePath,
    ) -> Result<String, Error> {
        let hash = Digest::of(format!("{}\n{path}", self.name).as_bytes()).half();
        let start = &path.name()[..path.name().floor_char_boundary(100)];
        let plain = format!("{}.{task}.draft", path.name());
        let hashed = format!("{start}.{hash}.{task}.draft");
        let is_short = plain.len() <= 200;
        for name in [&hashed, &plain] {
            let Some(issued) = locked.draft(name)? else { continue };
            if issued.worker == self.name && issued.task == task && issued.path == *path {
                return match issued.set {
                    None => Ok(name.clone()),
                    Some(_) => Err(Error::AlreadySubmitted { draft: name.clone() }),
                };
            }
            if name == &plain {
                return Ok(hashed.clone());
            }
        }
        Ok(if is_short { plain } else { hashed })
    }

    /// Returns the content of this worker's last rejected draft of the file, if there is one.
    fn rejected_content(&self, task: &str, path: &WorkspacePath) -> Result<Option<String>, Error> {
        let content = self.gate.rejected.get::<Digest>(&rejected_key(self.name, task, path))?;
        let content = content.ok_or_else(|| Error::NoRejectedDraft { path: path.to_string() })?;
        let bytes = blob::get(&self.gate.blobs, content)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Reads the text of a draft once. Later changes to the draft file have no effect on the submission.
    pub(crate) fn draft_text(
        &self,
        locked: &LockedGate<'_>,
        issued: &DraftRecord,
    ) -> Result<String, Error> {
        let limit = self.gate.contract()?.draft_gate.max_draft_bytes;
        let content = locked.drafts()?.read(&issued.name, limit)?;
        let content = content.ok_or_else(|| Error::DraftMissing { draft: issued.name.clone() })?;
        decode_text(content.bytes, &issued.name)
    }

    /// Returns the record of a draft that was issued to this worker. Fails if the draft is already submitted.
    pub(crate) fn open_draft(
        &self,
        locked: &LockedGate<'_>,
        draft_path: &str,
    ) -> Result<DraftRecord, Error> {
        let issued = self.issued(locked, draft_path)?;
        match issued.set {
            None => Ok(issued),
            Some(_) => Err(Error::AlreadySubmitted { draft: issued.name }),
        }
    }

    /// Returns a draft that was issued to this worker. The name is looked up in the records and never used as a path.
    fn issued(&self, locked: &LockedGate<'_>, draft_path: &str) -> Result<DraftRecord, Error> {
        let path = WorkspacePath::parse(draft_path)?;
        let name = path.as_str().strip_prefix(DRAFTS).and_then(|it| it.strip_prefix('/'));
        let not_issued =
            || Error::NotIssued { draft: path.to_string(), worker: self.name.to_owned() };
        let name = name.filter(|it| !it.contains('/')).ok_or_else(not_issued)?;
        let issued = locked.draft(name)?;
        issued.filter(|it| it.worker == self.name).ok_or_else(not_issued)
    }
}

impl LockedGate<'_> {
    /// Returns the record of a draft. A corrupt record counts as missing, and so does a record that a power failure
    /// restored after the decision.
    pub(crate) fn draft(&self, name: &str) -> Result<Option<DraftRecord>, Error> {
        let issued: Option<DraftRecord> = self.gate.issued.readable(name)?;
        let is_over = |set: &String| self.gate.decided.has(set);
        Ok(issued.filter(|it| !it.set.as_ref().is_some_and(is_over)))
    }
}

/// Decodes bytes as text. Fails if they are not UTF-8 or contain NUL.
pub(crate) fn decode_text(bytes: Vec<u8>, path: &str) -> Result<String, Error> {
    let text = String::from_utf8(bytes).ok().filter(|it| !it.contains('\0'));
    text.ok_or_else(|| Error::NotText { path: path.to_owned() })
}

/// Returns the name of the record of a rejected draft.
pub(crate) fn rejected_key(worker: &str, task: &str, path: &WorkspacePath) -> String {
    Digest::of(format!("{worker}\n{task}\n{path}").as_bytes()).half()
}
