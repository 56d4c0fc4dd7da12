//! The key that every host knows.

/// OpenSM's default key, which the tools around it use: every host knows it.
pub const KNOWN_KEY: u64 = 1;

/// Effect of a key that others know, and the remedy.
pub(super) const OPENS_NOTHING: &str = "it opens nothing, and the SA trusts no request: name a file \
                                        with a random key, sm.sa_key_file";
