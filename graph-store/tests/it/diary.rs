//! A graph that stores a diary in a SQLite file.

use std::{fs, path::PathBuf, time::Duration};

use graph_core::{CompiledGraph, END, Route, RunOptions, START, State, StateGraph};
use graph_store::SqliteSaver;
use tempfile::TempDir;

/// A temporary directory with a database.
pub(crate) struct TestDir(pub(crate) TempDir);

impl TestDir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("threads.db")
    }

    pub(crate) fn saver(&self) -> SqliteSaver {
        SqliteSaver::open(self.path()).unwrap()
    }

    /// Opens the file with SQLite. Statements wait until the saver has finished writing.
    pub(crate) fn connection(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(120)).unwrap();
        connection
    }

    /// Returns the concatenated contents of all files in the directory.
    #[cfg(feature = "encryption")]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let files = fs::read_dir(self.0.path()).unwrap();
        files.flat_map(|it| fs::read(it.unwrap().path()).unwrap()).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            files.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[derive(State, Clone, Debug, Default)]
pub(crate) struct Diary {
    #[reduce(append)]
    pub(crate) days: Vec<String>,
    pub(crate) wanted: usize,
}

pub(crate) async fn write(diary: &Diary) -> DiaryUpdate {
    Diary::update().days([format!("day {}: {}", diary.days.len(), "x".repeat(200))])
}

#[derive(Route)]
enum Next {
    #[to(write)]
    More,
    #[to(END)]
    Enough,
}

fn enough(diary: &Diary) -> Next {
    if diary.days.len() < diary.wanted { Next::More } else { Next::Enough }
}

pub(crate) fn diary(saver: SqliteSaver) -> CompiledGraph<Diary> {
    let graph = StateGraph::<Diary>::new().node(write).edge(START, write).branch(write, enough);
    graph.checkpointer(saver).compile().unwrap()
}

pub(crate) async fn keep_diary(saver: &SqliteSaver, thread: &str, days: usize) {
    let options = RunOptions::new().step_limit(1_000_000);
    let thread = diary(saver.clone()).thread(thread, ()).with_options(options);
    let exit = thread.run(Diary { wanted: days, ..Diary::default() }).await.unwrap();
    assert_eq!(exit.into_state().days.len(), days);
}
