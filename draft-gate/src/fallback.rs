//! From a model's text to drafts, by [`extract`]: what comes out goes through the same gate.

use crate::{
    diff::line_count,
    error::{Error, shown},
    extract::extract,
    gate::Gate,
    path::plain_name,
    tool::{Request, Submission, Submitted},
};

impl Gate {
    /// Makes one change set of all files that a text holds. A text that cannot be read is counted in the log.
    pub fn submit_text(&self, worker: &str, task: &str, text: &str) -> Result<Submitted, Error> {
        let result = extract(text);
        let (event, detail) = match &result {
            Ok(files) => ("extracted", format!("{} files", files.len())),
            Err(why) => ("extraction_failed", (*why).to_owned()),
        };
        let agent = plain_name(worker, "worker's name")?;
        let task = plain_name(task, "task id")?;
        self.enter()?.note(agent, event, task, [("reason", detail.into())])?;
        let files = result.map_err(Error::NoFile)?;
        let worker = self.worker(worker)?;
        // All are written before the first is handed in: a file that is refused leaves no half set behind.
        let mut drafts = vec![];
        for file in &files {
            let draft = match worker.request(&Request::edit(&file.path, task)) {
                Err(Error::Missing { .. }) => worker.request(&Request::create(&file.path, task))?,
                other => other?,
            };
            worker.write(&draft.draft_path, &file.content)?;
            let lines = line_count(&file.content);
            let summary = format!("{lines} lines taken from text for {}", shown(&file.path));
            drafts.push(Submission::of(&draft, &summary).more_to_come());
        }
        if let Some(last) = drafts.last_mut() {
            last.more_to_come = false;
        }
        let mut submitted: Option<Submitted> = None;
        for submission in &drafts {
            let done = worker.submit(submission);
            if let (Err(_), Some(before)) = (&done, &submitted) {
                // The next text must not take along what is left of this one.
                self.drop_held(&before.set, agent)?;
            }
            submitted = Some(done?);
        }
        submitted.ok_or(Error::NoFile("there is no fenced block"))
    }
}
