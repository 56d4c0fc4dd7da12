//! `rsm-agent`: reads the GPU host that it runs on, and tells the subnet manager of changes.
//!
//! A report is a digest; the inventory itself goes only to a manager that does not know it. Reading
//! happens on a thread of its own, with a time-out, as drivers may hang.

mod arguments;
mod pace;
mod reading;
mod reporter;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use rsm_gdr::import::to_json;

use self::arguments::{Arguments, Command};
use self::reading::{Outcome, Reader};

/// Ends with these codes, which `--help` lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Done = 0,
    Refused = 1,
    Usage = 2,
    Unreachable = 3,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let end = match &arguments.command {
        Some(Command::Nvml { library }) => nvml(library),
        Some(Command::ManPages { dir }) => man_pages(dir),
        None if arguments.print => print(&arguments),
        None => reporter::run(&arguments),
    };
    ExitCode::from(end as u8)
}

/// Writes a line for the log. With standard error closed, the agent works all the same.
fn note(text: &str) {
    let plain: String = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    let _ = writeln!(io::stderr(), "rsm-agent: {plain}");
}

/// Writes to standard output.
fn put(text: &str) -> End {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Ok(()) => End::Done,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => End::Done,
        Err(error) => {
            note(&format!("standard output: {error}"));
            End::Refused
        }
    }
}

/// Prints the inventory of this host.
fn print(arguments: &Arguments) -> End {
    match Reader::default().read(arguments) {
        Outcome::Host(host) => put(&(to_json(&host) + "\n")),
        Outcome::Nothing(reason) => {
            note(&reason);
            End::Done
        }
        Outcome::Failed(reason) => {
            note(&reason);
            End::Refused
        }
    }
}

/// Asks NVIDIA's library, in a process that may hang or crash.
fn nvml(library: &std::ffi::OsStr) -> End {
    match rsm_probe::nvml::read(library) {
        Ok(reading) => put(&rsm_probe::program_output(&reading)),
        Err(error) => {
            note(&error.to_string());
            End::Refused
        }
    }
}

fn man_pages(dir: &std::path::Path) -> End {
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), dir));
    match written {
        Ok(()) => End::Done,
        Err(error) => {
            note(&format!("{}: {error}", dir.display()));
            End::Refused
        }
    }
}
