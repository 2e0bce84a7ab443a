//! `draft-gate review`: shows pending change sets and asks for verdicts.

use std::{
    env, fs,
    io::{self, BufRead},
    process::Command,
};

use draft_gate::{Gate, Judgement, PendingSet};

use crate::{
    output::{BoxError, print, print_line},
    render::{ColorMode, print_judgement, print_origin},
};

/// The reviewer's answer.
enum Answer {
    Accept,
    Reject(String),
    Amend(String),
    Skip,
    Quit,
}

pub(crate) fn review(gate: &Gate, start: &str, agent: &str) -> Result<(), BoxError> {
    let pending: Vec<PendingSet> =
        gate.pending()?.into_iter().filter(|it| it.set.starts_with(start)).collect();
    if pending.is_empty() {
        return print_line("no pending change sets");
    }
    for set in pending {
        let mut judgement = gate.inspect(&set.set)?;
        print_line("")?;
        print_origin(&set)?;
        print_judgement(&judgement, ColorMode::for_stdout())?;
        loop {
            match ask(&set)? {
                Answer::Accept => gate.accept(&set.set, judgement.fingerprint, agent)?,
                Answer::Reject(reason) => {
                    gate.reject(&set.set, judgement.fingerprint, &reason, agent)?
                }
                Answer::Amend(path) => {
                    judgement = amend(gate, &judgement, &path, agent)?;
                    print_judgement(&judgement, ColorMode::for_stdout())?;
                    continue;
                }
                Answer::Skip => {}
                Answer::Quit => return Ok(()),
            }
            break;
        }
    }
    Ok(())
}

fn ask(set: &PendingSet) -> Result<Answer, BoxError> {
    loop {
        match line("[a]ccept, [r]eject, a[m]end, [s]kip, [q]uit? ")?.as_str() {
            "a" | "accept" => return Ok(Answer::Accept),
            "r" | "reject" => return Ok(Answer::Reject(line("reason? ")?)),
            "m" | "amend" => {
                let path = match set.paths.as_slice() {
                    [only] => only.to_string(),
                    _ => line("which file? ")?,
                };
                return Ok(Answer::Amend(path));
            }
            "s" | "skip" => return Ok(Answer::Skip),
            "q" | "quit" => return Ok(Answer::Quit),
            _ => {}
        }
    }
}

/// Opens the text of a draft in the reviewer's editor and submits the edited text.
fn amend(
    gate: &Gate,
    judgement: &Judgement,
    path: &str,
    agent: &str,
) -> Result<Judgement, BoxError> {
    let text = gate.proposed_text(&judgement.set, path)?;
    let dir = tempfile::tempdir()?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let file = dir.path().join(name);
    fs::write(&file, text)?;
    let editor =
        env::var("VISUAL").or_else(|_| env::var("EDITOR")).unwrap_or_else(|_| "vi".to_owned());
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(&file)
        .status()?;
    if !status.success() {
        return Err(format!("editor `{editor}` failed; nothing was changed").into());
    }
    let text = fs::read_to_string(&file)?;
    Ok(gate.amend(&judgement.set, path, &text, judgement.fingerprint, agent)?)
}

fn line(question: &str) -> Result<String, BoxError> {
    print(question)?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(
            "standard input is closed; use `draft-gate accept` or `draft-gate reject`".into()
        );
    }
    Ok(line.trim().to_owned())
}
