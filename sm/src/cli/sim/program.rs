//! Distinguishes programs that the preloaded library reaches from programs that it does not reach.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::{PRELOAD, ProgramEnvironment};

/// Bits of set-user-ID and set-group-ID (inode(7)): the loader ignores `LD_PRELOAD` for such files
/// (ld.so(8)).
const SET_ID: u32 = 0o6000;

/// Extended attribute with a file's capabilities; the loader ignores `LD_PRELOAD` for files that
/// have the attribute.
const CAPABILITIES: &str = "security.capability";

/// Largest number of scripts in a chain of interpreters, as in Linux (`exec_binprm`).
const MAX_SCRIPTS: usize = 5;

/// Longest first line of a script that Linux reads, in bytes (`BINPRM_BUF_SIZE`).
const MAX_SCRIPT_LINE: usize = 256;

/// Program to run on a simulated fabric.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
}

impl Program {
    /// Finds a program by its path, or by its name in `PATH`.
    ///
    /// # Errors
    /// No executable program with this name exists.
    pub(super) fn find(name: &OsStr) -> anyhow::Result<Program> {
        let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
            vec![PathBuf::from(name)]
        } else {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path)
                .map(|folder| folder.join(name))
                .collect()
        };
        let found = candidates.into_iter().find(|path| is_executable(path));
        let path =
            found.with_context(|| format!("cannot run {}: no such program", name.display()))?;
        Ok(Program { path })
    }

    /// Path of the program.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Proves that the loader of the program, or of the script's interpreter, loads `library`,
    /// without running the program.
    ///
    /// # Errors
    /// The loader does not load the library, or whether it does is uncertain.
    pub(super) fn prove_preloaded(
        &self,
        library: &Path,
        environment: &ProgramEnvironment,
    ) -> anyhow::Result<()> {
        let mut path = self.path.clone();
        for _ in 0..=MAX_SCRIPTS {
            let image = Image::read(&path).with_context(|| {
                format!("cannot check whether {} is safe to run", path.display())
            })?;
            match image {
                Image::Script { interpreter } => path = interpreter,
                image => {
                    return image.prove(&path, library, environment).with_context(|| {
                        format!(
                            "{} was not started: it would run on the umad devices of this machine",
                            self.path.display()
                        )
                    });
                }
            }
        }
        anyhow::bail!(
            "{}: too many scripts are each other's interpreters",
            self.path.display()
        )
    }
}

/// Whether `path` is a file that may be executed.
fn is_executable(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Kind of a program's file, as the kernel reads it.
#[derive(Debug, PartialEq, Eq)]
enum Image {
    /// Script, which begins with `#!` and the interpreter's path.
    Script { interpreter: PathBuf },
    /// ELF file that a loader links before it runs.
    Dynamic { loader: PathBuf },
    /// ELF file without a loader.
    Static,
    /// Format that this module does not know.
    Unknown,
}

impl Image {
    /// Reads the kind of the file at `path`.
    fn read(path: &Path) -> io::Result<Image> {
        let file = File::open(path)?;
        let mut start = Vec::new();
        (&file)
            .take(MAX_SCRIPT_LINE as u64)
            .read_to_end(&mut start)?;
        if let Some(line) = start.strip_prefix(b"#!") {
            return Ok(script(line));
        }
        elf(&file, &start)
    }

    /// Proves that the program at `path`, which has this image, loads `library`.
    fn prove(
        &self,
        path: &Path,
        library: &Path,
        environment: &ProgramEnvironment,
    ) -> anyhow::Result<()> {
        let name = path.display();
        let loader = match self {
            Image::Dynamic { loader } => loader,
            Image::Static => anyhow::bail!("{name} is statically linked and ignores {PRELOAD}"),
            Image::Script { .. } | Image::Unknown => {
                anyhow::bail!(
                    "{name} is neither a script nor a program of this machine's kind (64-bit ELF)"
                )
            }
        };
        if fs::metadata(path)?.permissions().mode() & SET_ID != 0 {
            anyhow::bail!(
                "{name} has the setuid or setgid bit, with which programs ignore {PRELOAD}"
            );
        }
        if has_capabilities(path)? {
            anyhow::bail!("{name} has file capabilities, with which programs ignore {PRELOAD}");
        }
        is_loaded(loader, path, library, environment)
    }
}

/// Proves that `loader` loads `library` for the program at `path`, from the loader's own list of
/// libraries. The option `--list`, which the loaders of glibc and musl support, runs no code of the
/// program.
fn is_loaded(
    loader: &Path,
    path: &Path,
    library: &Path,
    environment: &ProgramEnvironment,
) -> anyhow::Result<()> {
    let mut command = Command::new(loader);
    environment.apply(&mut command);
    let listed = command
        .arg("--list")
        .arg(path.canonicalize()?)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run its loader {}", loader.display()))?;
    let wanted = library.as_os_str().as_bytes();
    let is_library = |line: &[u8]| {
        let rest = line.trim_ascii_start().strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b' ')
    };
    if listed.status.success() && listed.stdout.split(|&byte| byte == b'\n').any(is_library) {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&listed.stderr);
    anyhow::bail!(
        "its loader {} does not load {}: {}",
        loader.display(),
        library.display(),
        reason.trim()
    )
}

/// Whether the file at `path` has capabilities.
fn has_capabilities(path: &Path) -> io::Result<bool> {
    use rustix::io::Errno;
    // A length of 0 requests only the size.
    match rustix::fs::getxattr(path, CAPABILITIES, &mut [0u8; 0]) {
        Ok(_) => Ok(true),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Parses the interpreter from the first line of a script, after `#!`.
fn script(line: &[u8]) -> Image {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    match words.next() {
        Some(interpreter) => Image::Script {
            interpreter: OsString::from_vec(interpreter.to_vec()).into(),
        },
        None => Image::Unknown,
    }
}

/// `PT_INTERP` of elf(5): type of the segment that holds the loader's path.
const LOADER_SEGMENT: u32 = 3;

/// Longest path of a loader, in bytes (`PATH_MAX`).
const MAX_LOADER: u64 = 4096;

/// Reads the headers of a 64-bit ELF file whose first bytes are `start` (elf(5)).
fn elf(file: &File, start: &[u8]) -> io::Result<Image> {
    // The magic number, ELFCLASS64, and the byte order of this machine.
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if start.len() < 64 || start[..6] != [0x7F, b'E', b'L', b'F', 2, order] {
        return Ok(Image::Unknown);
    }
    let short = |at: usize| u16::from_ne_bytes([start[at], start[at + 1]]);
    let (mut at, size, count) = (long(start, 0x20), short(0x36), short(0x38));
    if size < 0x38 {
        return Ok(Image::Unknown);
    }
    for _ in 0..count {
        let mut header = [0; 0x38];
        file.read_exact_at(&mut header, at)?;
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        if kind == LOADER_SEGMENT {
            return loader(file, long(&header, 0x08), long(&header, 0x20));
        }
        at = (at.checked_add(size.into())).ok_or(ErrorKind::InvalidData)?;
    }
    Ok(Image::Static)
}

/// Eight bytes of `bytes` at index `at`, as an integer in the byte order of this machine.
fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(long)
}

/// Reads the loader's path, which has `len` bytes at the offset `at` of the file.
fn loader(file: &File, at: u64, len: u64) -> io::Result<Image> {
    if len > MAX_LOADER {
        return Ok(Image::Unknown);
    }
    let mut path = vec![0; len as usize];
    file.read_exact_at(&mut path, at)?;
    let path = path.split(|&byte| byte == 0).next().unwrap_or(&[]);
    Ok(match path {
        [] => Image::Static,
        path => Image::Dynamic {
            loader: OsString::from_vec(path.to_vec()).into(),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    /// Creates an executable file whose content is `bytes`.
    fn executable(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create(true)
            .mode(0o755)
            .open(&path)
            .unwrap();
        io::Write::write_all(&mut file, bytes).unwrap();
        (dir, path)
    }

    /// A 64-bit ELF file with one segment of the type `kind`, whose content is `content`.
    fn elf_file(kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        bytes[..6].copy_from_slice(&[0x7F, b'E', b'L', b'F', 2, order]);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0x20, &64u64.to_ne_bytes());
        put(0x36, &56u16.to_ne_bytes());
        put(0x38, &1u16.to_ne_bytes());
        put(64, &kind.to_ne_bytes());
        put(64 + 0x08, &120u64.to_ne_bytes());
        put(64 + 0x20, &(content.len() as u64).to_ne_bytes());
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn loader_segment_distinguishes_dynamic_programs_from_static_ones() {
        let (_dir, path) = executable("dynamic", &elf_file(LOADER_SEGMENT, b"/lib/ld.so\0"));
        let loader = PathBuf::from("/lib/ld.so");
        assert_eq!(Image::read(&path).unwrap(), Image::Dynamic { loader });
        let (_dir, path) = executable("static", &elf_file(1, b"code"));
        assert_eq!(Image::read(&path).unwrap(), Image::Static);
    }

    #[test]
    fn truncated_and_foreign_files_are_no_programs() {
        let whole = elf_file(LOADER_SEGMENT, b"/lib/ld.so\0");
        for len in 0..whole.len() - 1 {
            let (_dir, path) = executable("cut", &whole[..len]);
            let image = Image::read(&path);
            assert!(
                !matches!(image, Ok(Image::Dynamic { .. } | Image::Static)),
                "{len}: {image:?}"
            );
        }
        let mut narrow = whole;
        narrow[4] = 1;
        let (_dir, path) = executable("32-bit", &narrow);
        assert_eq!(Image::read(&path).unwrap(), Image::Unknown);
    }

    #[test]
    fn interpreter_is_the_first_word_of_the_first_line() {
        let interpreter = |line: &[u8]| match script(line) {
            Image::Script { interpreter } => interpreter,
            other => panic!("{other:?}"),
        };
        assert_eq!(interpreter(b"/bin/sh\nx"), PathBuf::from("/bin/sh"));
        assert_eq!(
            interpreter(b" /usr/bin/env python3"),
            PathBuf::from("/usr/bin/env")
        );
        assert_eq!(script(b"\n/bin/sh"), Image::Unknown);
    }

    #[test]
    fn programs_are_found_by_path_and_by_name_and_must_be_executable() {
        let (dir, path) = executable("program", b"");
        assert_eq!(Program::find(path.as_os_str()).unwrap().path(), path);
        assert!(
            Program::find(OsStr::new("sh"))
                .unwrap()
                .path()
                .is_absolute()
        );
        fs::write(dir.path().join("text"), "").unwrap();
        for missing in [
            dir.path().join("text"),
            dir.path().join("none"),
            dir.path().into(),
        ] {
            assert!(
                Program::find(missing.as_os_str()).is_err(),
                "{}",
                missing.display()
            );
        }
    }
}
