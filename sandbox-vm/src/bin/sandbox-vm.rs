//! `sandbox-vm doctor`: says what the back ends can do on this machine. It is also the plain guest, with an agent that
//! runs programs and keeps files and knows no graph.
#![expect(clippy::print_stdout, reason = "a command line tool talks on standard output")]

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use sandbox_vm::{
    backend::{self, InProcess, Runs},
    guest::{self, Agent},
    image::{self, Images},
};

const HELP: &str = "\
Usage: sandbox-vm COMMAND

  doctor [--json]         says what each back end can do on this machine, strongest first, and what to install
                          for more; --json: the same as data
  image build [FOLDER]    builds the kernel and the images of guests from Debian's packages, into this folder or
                          where they are looked for
";

fn main() -> ExitCode {
    guest::enter(Agent::new);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["doctor"] => doctor(Form::Words),
        ["doctor", "--json"] => doctor(Form::Json),
        ["image", "build"] => build_images(None),
        ["image", "build", folder] => build_images(Some(folder.into())),
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("unknown arguments: {}\n\n{HELP}", args.join(" "));
            ExitCode::from(2)
        }
    }
}

#[derive(Clone, Copy)]
enum Form {
    Words,
    Json,
}

fn doctor(form: Form) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut backends = backend::isolating("/proc/self/exe", Runs::Graphs);
    backends.push(Arc::new(InProcess::new(Agent::new)));
    let reports = runtime.block_on(async {
        let mut reports = Vec::new();
        for backend in &backends {
            reports.push(backend.probe().await);
        }
        reports
    });
    let text = match form {
        Form::Words => reports.iter().map(|it| format!("{it}\n")).collect(),
        Form::Json => serde_json::to_string_pretty(&reports).unwrap_or_default(),
    };
    // A reader that has seen enough, as `head` has, is no error.
    let _ = writeln!(io::stdout(), "{}", text.trim_end());
    ExitCode::SUCCESS
}

fn build_images(folder: Option<PathBuf>) -> ExitCode {
    let Some(folder) = folder.or_else(Images::usual_folder) else {
        eprintln!("error: say which folder the images go to");
        return ExitCode::from(2);
    };
    match image::build(&folder) {
        Ok(packages) => {
            println!(
                "built the guest images in {} of:\n  {}",
                folder.display(),
                packages.join("\n  ")
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
