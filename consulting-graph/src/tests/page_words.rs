//! The words for isolation on the web page, which are the same as in the report.

use std::{env, fs, path::Path};

use sandbox_vm::report::IsolationLevel;

use crate::report::Isolation;

/// Returns the expected text of `web/src/lib/isolation-words.ts`.
fn words() -> String {
    let levels =
        [IsolationLevel::Vm, IsolationLevel::Kernel, IsolationLevel::Process, IsolationLevel::Off];
    let levels = levels.map(|it| format!("  {it}: {:?},\n", it.description())).concat();
    format!(
        "// Written by the test `page_words` of consulting-graph from the words of the report. Do not edit.\n\n\
         /** Descriptions of the isolation levels. */\n\
         export const LEVELS = {{\n{levels}}};\n\n\
         /** Warning about debates whose memory no kernel limited. */\n\
         export const MEMORY_UNBOUNDED = {:?};\n",
        Isolation::MEMORY_UNBOUNDED
    )
}

/// `INSTA_UPDATE=always` writes the file instead of comparing it.
#[test]
fn page_uses_the_words_of_the_report() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/src/lib/isolation-words.ts");
    if env::var_os("INSTA_UPDATE").is_some_and(|it| it == "always") {
        fs::write(&path, words()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert_eq!(found, words(), "write the file with INSTA_UPDATE=always, and build the page");
}
