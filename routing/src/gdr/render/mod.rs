//! Hints and plans as the files and variables that other programs read.

mod text;

pub use text::describe;
