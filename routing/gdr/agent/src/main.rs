//! `rsm-agent`: reads the GPU host on which it runs, and reports changes to the subnet manager.
//!
//! A report is a digest; the inventory itself goes only to a manager that does not know it. A
//! separate thread reads the host, with a time-out, because drivers may hang.

mod arguments;
mod console;
mod pace;
mod reading;
mod reporter;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use rsm_api::manual::Manual;
use rsm_gdr::import::to_json;

use self::arguments::{Arguments, Command};
use self::console::{End, note, put};
use self::reading::{Outcome, Reader};

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

/// Prints the inventory of this host as JSON.
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

/// Prints the GPUs that NVIDIA's library lists. The agent runs this command in a separate process,
/// because the library may hang or crash.
fn nvml(library: &std::ffi::OsStr) -> End {
    match rsm_probe::nvml::read(library) {
        Ok(reading) => put(&rsm_probe::program_output(&reading)),
        Err(error) => {
            note(&error.to_string());
            End::Refused
        }
    }
}

/// Writes the manual pages into `dir`.
fn man_pages(dir: &std::path::Path) -> End {
    let manual = Manual {
        section: "8",
        see_also: &["rsmctl-gpu(1)", "rsm(8)"],
    };
    match manual.write(Arguments::command(), dir) {
        Ok(()) => End::Done,
        Err(error) => {
            note(&format!("{}: {error}", dir.display()));
            End::Refused
        }
    }
}
