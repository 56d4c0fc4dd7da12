//! Arguments the benches share.

#![allow(dead_code, reason = "each bench uses a part of it")]

use std::path::{Path, PathBuf};

use rsm_tests::{Error, fabrics};

/// The fabrics, the contenders and the rounds of a bench.
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

    /// The given net file, or one generated into `directory`.
    pub(crate) fn net(&self, default_spec: &str, directory: &Path) -> Result<PathBuf, Error> {
        match &self.net {
            Some(net) => Ok(net.clone()),
            None => fabrics::generate(self.spec.as_deref().unwrap_or(default_spec), directory),
        }
    }

    /// The specification, or that of the bench.
    pub(crate) fn spec<'a>(&'a self, default: &'a str) -> &'a str {
        self.spec.as_deref().unwrap_or(default)
    }

    /// The specification, or those of the bench.
    pub(crate) fn specs<'a>(&'a self, defaults: &[&'a str]) -> Vec<&'a str> {
        match self.given_spec() {
            Some(spec) => vec![spec],
            None => defaults.to_vec(),
        }
    }

    /// The specification, if one was given.
    pub(crate) fn given_spec(&self) -> Option<&str> {
        self.spec.as_deref()
    }

    /// The net file that was given.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.net.as_deref()
    }

    /// Rounds per contender.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    /// Whether the fabric of this name takes part: all do unless `--fabric` gives a part of the
    /// name.
    pub(crate) fn has_fabric(&self, name: &str) -> bool {
        self.fabric.as_ref().is_none_or(|part| name.contains(part))
    }

    /// Whether faults of this name take part: all do unless `--faults` gives a part of the name.
    pub(crate) fn has_faults(&self, name: &str) -> bool {
        self.faults.as_ref().is_none_or(|part| name.contains(part))
    }

    /// The probability with which a packet is lost; `--loss` gives it in percent.
    pub(crate) fn loss(&self) -> f64 {
        self.loss
    }

    /// The longest that a foreign program may take.
    pub(crate) fn limit_s(&self) -> Option<u64> {
        self.limit_s
    }

    /// The directory for the foreign programs' tables.
    pub(crate) fn dumps(&self) -> Option<&Path> {
        self.dumps.as_deref()
    }

    /// Whether the contender of this name takes part: all do unless `--only` names some.
    pub(crate) fn takes_part(&self, contender: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == contender)
    }
}
