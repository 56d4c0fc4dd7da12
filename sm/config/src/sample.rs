use std::fmt::Write;

use super::Config;
use super::schema::Applies;
use super::schema::{SECTIONS, fields};

impl Config {
    /// Generates a configuration file with every key, its effect, and its default.
    ///
    /// Parsing it gives [`Config::default`].
    pub fn sample() -> String {
        let mut config = Config::default();
        let mut out = String::from(
            "# Configuration of rsm. Every key is here with its default; delete what you do not change.\n",
        );
        for (section, about) in SECTIONS {
            // Writing to a String cannot fail.
            let _ = write!(out, "\n#{about}\n[{section}]\n");
            for field in fields().iter().filter(|f| f.section == *section) {
                for line in field.doc {
                    let _ = writeln!(out, "# {}", line.trim());
                }
                let _ = writeln!(out, "# Takes {}.", field.expected());
                if field.applies == Applies::AtStart {
                    out.push_str("# A change takes effect at the next start.\n");
                }
                let _ = match field.value(&mut config) {
                    Some(value) => writeln!(out, "{} = {value}", field.key),
                    None => writeln!(out, "#{} = {}", field.key, field.example),
                };
            }
        }
        out
    }
}
