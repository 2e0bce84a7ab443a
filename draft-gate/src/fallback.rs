//! Submits files that were [extracted](extract) from a model's text. They pass through the same gate as drafts.

use crate::{
    diff::line_count,
    error::Error,
    escape::escape_for_message,
    extract::extract,
    gate::Gate,
    path::validate_name,
    secret_name::ensure_no_secret,
    tool::{DraftRequest, Submission, SubmissionReceipt},
};

impl Gate {
    /// Submits all files in a text as one change set. Texts without files are recorded in the log.
    pub fn submit_text(
        &self,
        worker: &str,
        task: &str,
        text: &str,
    ) -> Result<SubmissionReceipt, Error> {
        let result = extract(text);
        let (event, detail) = match &result {
            Ok(files) => ("extracted", format!("{} files", files.len())),
            Err(why) => ("extraction_failed", (*why).to_owned()),
        };
        let agent = validate_name(worker, "worker name")?;
        let task = validate_name(task, "task id")?;
        ensure_no_secret(task, "task id")?;
        self.lock()?.log_event(agent, event, task, [("reason", detail.into())])?;
        let files = result.map_err(Error::NoExtractableFile)?;
        let worker = self.worker(worker)?;
        // Write all drafts before the first one is submitted, so that a rejected file leaves no partial set.
        let mut drafts = vec![];
        for file in &files {
            let draft = match worker.request(&DraftRequest::edit(&file.path, task)) {
                Err(Error::Missing { .. }) => {
                    worker.request(&DraftRequest::create(&file.path, task))?
                }
                other => other?,
            };
            worker.write(&draft.draft_path, &file.content)?;
            let lines = line_count(&file.content);
            let summary =
                format!("{lines} lines extracted from text for {}", escape_for_message(&file.path));
            drafts.push(Submission::of(&draft, &summary).more_to_come());
        }
        if let Some(last) = drafts.last_mut() {
            last.more_to_come = false;
        }
        let mut submitted: Option<SubmissionReceipt> = None;
        for submission in &drafts {
            let done = worker.submit(submission);
            if let (Err(_), Some(before)) = (&done, &submitted) {
                // Drop the incomplete set; otherwise the files of the next text would be added to it.
                self.drop_incomplete(&before.set, agent)?;
            }
            submitted = Some(done?);
        }
        submitted.ok_or(Error::NoExtractableFile("there is no fenced block"))
    }
}
