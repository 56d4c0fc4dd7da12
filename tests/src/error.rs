//! Errors between the harness and the programs that it drives.

use std::path::PathBuf;

/// An error of the harness. Tests usually unwrap it, so it contains everything needed to reproduce
/// it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file or directory could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start `{command}`")]
    Spawn {
        /// The command line of the program.
        command: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The kernel does not report on a child process.
    #[error("cannot watch `{command}`")]
    Watch {
        /// The command line of the program.
        command: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A program ended with a failure.
    #[error("`{command}`: {outcome}{output}")]
    Failed {
        /// The command line of the program.
        command: String,
        /// The exit status, the signal or "timed out".
        outcome: String,
        /// The end of the program's output.
        output: String,
    },
    /// ibsim ended before it simulated the fabric.
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
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The output of a program does not have the expected form.
    #[error("{program}: unexpected output: {detail}")]
    Output {
        /// The program.
        program: String,
        /// The line or field with another form.
        detail: String,
    },
}
