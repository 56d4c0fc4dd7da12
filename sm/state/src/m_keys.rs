//! The M_Keys of ports, without the secrets.

use rsm_config::m_keys::Generations;

/// State of the M_Keys of ports, without the keys.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MKeyStatus {
    /// Whether ports are planned to hold any key.
    pub protects: bool,
    /// Whether each port has its own key.
    pub per_port: bool,
    /// Generations of the keys, one per rotation.
    pub generations: Generations,
    /// Number of ports that hold their planned key.
    pub settled: usize,
    /// Number of ports that do not hold their planned key.
    pub behind: usize,
}
