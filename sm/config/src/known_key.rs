//! OpenSM's default key, which protects nothing because it is public.

/// OpenSM's default key, which its tools use: every host knows it.
pub const KNOWN_KEY: u64 = 1;

/// Effect of a publicly known key, and the remedy.
pub(super) const OPENS_NOTHING: &str = "it opens nothing, and the SA trusts no request: name a file \
                                        with a random key, sm.sa_key_file";
