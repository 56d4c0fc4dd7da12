//! Makes certificates with openssl, as files `NAME.key` and `NAME.pem` in a directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::peer::program_path;
use crate::process::Invocation;

/// The maximum time for one run of openssl.
const LIMIT: Duration = Duration::from_secs(60);

/// The algorithm of the keys: elliptic curves.
const EC: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
];

/// A directory of certificates.
#[derive(Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    /// Certificates in `directory`, which must exist.
    #[must_use]
    pub fn at(directory: &Path) -> Certificates {
        Certificates {
            directory: directory.to_owned(),
        }
    }

    /// Makes a certificate authority.
    ///
    /// # Errors
    /// openssl fails.
    pub fn authority(&self, name: &str) -> Result<(), Error> {
        let [key, certificate] = ["key", "pem"].map(|end| format!("{name}.{end}"));
        let subject = format!("/CN={name}");
        let own = [
            "req",
            "-x509",
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &certificate,
        ];
        self.openssl(&[&own[..], &EC].concat())
    }

    /// Makes a certificate signed by `authority`, with `alternative` (`IP:…`, `URI:…`) as its
    /// subject alternative name.
    ///
    /// # Errors
    /// openssl fails, or a file cannot be written.
    pub fn sign(&self, name: &str, authority: &str, alternative: &str) -> Result<(), Error> {
        let [key, request, certificate, extensions] =
            ["key", "csr", "pem", "ext"].map(|end| format!("{name}.{end}"));
        let [ca, ca_key] = ["pem", "key"].map(|end| format!("{authority}.{end}"));
        let path = self.directory.join(&extensions);
        std::fs::write(&path, format!("subjectAltName={alternative}\n"))
            .map_err(|source| Error::Write { path, source })?;
        let subject = format!("/CN={name}");
        let ask = [
            "req", "-new", "-subj", &subject, "-keyout", &key, "-out", &request,
        ];
        self.openssl(&[&ask[..], &EC].concat())?;
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-CAcreateserial",
            "-extfile",
            &extensions,
            "-out",
            &certificate,
        ])
    }

    fn openssl(&self, arguments: &[&str]) -> Result<(), Error> {
        let run = Invocation::new(program_path("openssl"), &self.directory).args(arguments);
        run.run(LIMIT)?.success()?;
        Ok(())
    }
}
