//! The command-line tool `sandbox-vm`, which reports what the back ends can do on this machine and builds guest images.
//! The program can also run as a guest. Its agent runs programs and stores files but has no graphs.
#![expect(clippy::print_stdout, reason = "a command line tool prints to standard output")]

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use sandbox_vm::{
    backend::{self, InProcess, Workload},
    guest::{self, Agent},
    image::{self, Images},
};

const HELP: &str = "\
Usage: sandbox-vm COMMAND

  doctor [--json]         Report what each back end can do on this machine, strongest first, and what to
                          install to get more; --json prints JSON
  image build [DIR]       Build the guest kernel and images from Debian packages, in DIR or in the
                          default directory
";

fn main() -> ExitCode {
    guest::enter(Agent::new);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["doctor"] => doctor(OutputFormat::Text),
        ["doctor", "--json"] => doctor(OutputFormat::Json),
        ["image", "build"] => build_images(None),
        ["image", "build", dir] => build_images(Some(dir.into())),
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
enum OutputFormat {
    Text,
    Json,
}

fn doctor(format: OutputFormat) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut backends = backend::isolating_backends("/proc/self/exe", Workload::Graphs);
    backends.push(Arc::new(InProcess::new(Agent::new)));
    let reports = runtime.block_on(async {
        let mut reports = Vec::new();
        for backend in &backends {
            reports.push(backend.probe().await);
        }
        reports
    });
    let text = match format {
        OutputFormat::Text => reports.iter().map(|it| format!("{it}\n")).collect(),
        OutputFormat::Json => serde_json::to_string_pretty(&reports).unwrap_or_default(),
    };
    // A reader that closes the pipe early, like `head`, is not an error.
    let _ = writeln!(io::stdout(), "{}", text.trim_end());
    ExitCode::SUCCESS
}

fn build_images(dir: Option<PathBuf>) -> ExitCode {
    let Some(dir) = dir.or_else(Images::default_dir) else {
        eprintln!(
            "error: there is no default directory for images, because neither XDG_DATA_HOME nor HOME is set; specify one \
             with `sandbox-vm image build DIR`"
        );
        return ExitCode::from(2);
    };
    match image::build(&dir) {
        Ok(packages) => {
            println!(
                "built the guest images in {} from these packages:\n  {}",
                dir.display(),
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
