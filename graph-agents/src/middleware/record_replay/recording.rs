//! The file with the answers to calls.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::Path,
    sync::{Arc, Mutex},
};

use graph_core::NodeError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{AgentError, lock::lock};

/// A recording that is being written or replayed. Clones share it.
#[derive(Clone, Debug)]
pub(super) enum Recording {
    /// The file to which calls are appended.
    Write(Arc<Mutex<File>>),
    /// The answers that have not been replayed, by the key of their call.
    Replay(Arc<Mutex<BTreeMap<String, VecDeque<Value>>>>),
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    answer: Value,
}

impl Recording {
    /// Opens a file to which calls are appended, and creates it if it is missing.
    pub(super) fn write(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::Write(Arc::new(Mutex::new(file))))
    }

    /// Reads the calls in a file.
    pub(super) fn replay(path: &Path) -> io::Result<Self> {
        let mut answers: BTreeMap<String, VecDeque<Value>> = BTreeMap::new();
        for line in BufReader::new(File::open(path)?).lines() {
            let entry: Entry = serde_json::from_str(&line?)?;
            answers.entry(entry.key).or_default().push_back(entry.answer);
        }
        Ok(Self::Replay(Arc::new(Mutex::new(answers))))
    }

    /// Makes a call and records its answer, or returns the recorded answer without making the call. `name` describes
    /// the call in errors.
    pub(super) async fn answer<A: Serialize + DeserializeOwned>(
        &self,
        key: String,
        name: &str,
        call: impl Future<Output = Result<A, NodeError>>,
    ) -> Result<A, NodeError> {
        match self {
            Self::Write(file) => {
                let answer = call.await?;
                append(file, key, &answer)?;
                Ok(answer)
            }
            Self::Replay(answers) => {
                let answer = lock(answers).get_mut(&key).and_then(VecDeque::pop_front);
                let answer = answer.ok_or_else(|| missing(name))?;
                serde_json::from_value(answer).map_err(NodeError::terminal)
            }
        }
    }
}

/// Appends an entry to the file.
fn append(file: &Mutex<File>, key: String, answer: &impl Serialize) -> Result<(), NodeError> {
    let answer = serde_json::to_value(answer).map_err(NodeError::terminal)?;
    let line = serde_json::to_string(&Entry { key, answer }).map_err(NodeError::terminal)?;
    lock(file).write_all(format!("{line}\n").as_bytes()).map_err(NodeError::terminal)
}

fn missing(call: &str) -> NodeError {
    let problem =
        format!("the recording has no answer to this {call}; record the conversation again");
    NodeError::terminal(AgentError::named("ReplayError", problem))
}
