//! Errors between the harness and the programs it drives.

use std::path::PathBuf;

/// An error of the harness. Tests mostly unwrap it, so it has everything needed to reproduce.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or directory could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start `{command}`")]
    Spawn {
        /// Its command line.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// The kernel does not report on a child.
    #[error("cannot watch `{command}`")]
    Watch {
        /// Its command line.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// A program ended with a failure.
    #[error("`{command}`: {outcome}{output}")]
    Failed {
        /// Its command line.
        command: String,
        /// Exit status, signal or "timed out".
        outcome: String,
        /// The end of its output.
        output: String,
    },
    /// ibsim did not get as far as simulating.
    #[error("ibsim does not load {}: {reason}", net.display())]
    Refused {
        /// The net file.
        net: PathBuf,
        /// ibsim's output.
        reason: String,
    },
    /// ibsim did not answer on its console.
    #[error("ibsim console: no answer to `{command}`")]
    Console {
        /// The command.
        command: String,
    },
    /// A socket of the tap between ibsim and its clients failed.
    #[error("tap: cannot {operation}")]
    Tap {
        /// The failed operation.
        operation: String,
        /// Why.
        source: std::io::Error,
    },
    /// Output of a program does not have the expected form.
    #[error("{program}: unexpected output: {detail}")]
    Output {
        /// The program.
        program: String,
        /// The line or field.
        detail: String,
    },
}
