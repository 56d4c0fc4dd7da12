//! The command-line arguments that the benches share.

#![allow(dead_code, reason = "each bench uses some of the options")]

use std::path::{Path, PathBuf};

use rsm_tests::{Error, fabrics};

/// The options of a bench: fabrics, contenders, rounds and limits.
#[derive(Debug)]
pub(crate) struct Options {
    net: Option<PathBuf>,
    spec: Option<String>,
    rounds: usize,
    only: Vec<String>,
    fabric: Option<String>,
    faults: Option<String>,
    loss: f64,
    limit_s: Option<u64>,
    dumps: Option<PathBuf>,
}

fn number<N: std::str::FromStr>(text: String) -> Result<N, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

impl Options {
    /// Reads the command line; cargo adds `--bench` to it.
    pub(crate) fn from_arguments(rounds: usize) -> Result<Self, String> {
        let mut options = Self {
            net: None,
            spec: None,
            rounds,
            only: Vec::new(),
            fabric: None,
            faults: None,
            loss: 0.0,
            limit_s: None,
            dumps: None,
        };

        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => {}
                "--net" => options.net = Some(PathBuf::from(value()?)),
                "--spec" => options.spec = Some(value()?),
                "--only" => options.only.push(value()?),
                "--fabric" => options.fabric = Some(value()?),
                "--faults" => options.faults = Some(value()?),
                "--loss" => options.loss = number::<f64>(value()?)? / 100.0,
                "--dumps" => options.dumps = Some(PathBuf::from(value()?)),
                "--limit" => options.limit_s = Some(number(value()?)?),
                "--rounds" => options.rounds = number(value()?)?,
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(options)
    }

    /// The given net file, or a net file generated into `directory`.
    pub(crate) fn net(&self, default_spec: &str, directory: &Path) -> Result<PathBuf, Error> {
        match &self.net {
            Some(net) => Ok(net.clone()),
            None => fabrics::generate(self.spec.as_deref().unwrap_or(default_spec), directory),
        }
    }

    /// The given specification, or `default`.
    pub(crate) fn spec<'a>(&'a self, default: &'a str) -> &'a str {
        self.spec.as_deref().unwrap_or(default)
    }

    /// The given specification, or `defaults`.
    pub(crate) fn specs<'a>(&'a self, defaults: &[&'a str]) -> Vec<&'a str> {
        match self.given_spec() {
            Some(spec) => vec![spec],
            None => defaults.to_vec(),
        }
    }

    /// The given specification; `None` without `--spec`.
    pub(crate) fn given_spec(&self) -> Option<&str> {
        self.spec.as_deref()
    }

    /// The given net file; `None` without `--net`.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.net.as_deref()
    }

    /// The number of rounds for each contender.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    /// Whether the fabric `name` takes part. With `--fabric`, only fabrics take part whose name
    /// contains the given text.
    pub(crate) fn has_fabric(&self, name: &str) -> bool {
        self.fabric.as_ref().is_none_or(|part| name.contains(part))
    }

    /// Whether the faults `name` take part. With `--faults`, only faults take part whose name
    /// contains the given text.
    pub(crate) fn has_faults(&self, name: &str) -> bool {
        self.faults.as_ref().is_none_or(|part| name.contains(part))
    }

    /// The probability with which a packet is lost; `--loss` gives it in percent.
    pub(crate) fn loss(&self) -> f64 {
        self.loss
    }

    /// The time limit for OpenSM in seconds; `None` without `--limit`.
    pub(crate) fn limit_s(&self) -> Option<u64> {
        self.limit_s
    }

    /// The directory in which OpenSM's tables are kept; `None` without `--dumps`.
    pub(crate) fn dumps(&self) -> Option<&Path> {
        self.dumps.as_deref()
    }

    /// Whether `contender` takes part. With `--only`, only the named contenders take part.
    pub(crate) fn takes_part(&self, contender: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == contender)
    }
}
