//! The M_Keys of ports, as far as readers may know them.

use rsm_config::m_keys::Generations;

/// The M_Keys of ports, as far as they may be shown.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MKeyStatus {
    /// Whether ports are to hold any key.
    pub protects: bool,
    /// Whether each port has its own.
    pub per_port: bool,
    /// How often they were rotated.
    pub generations: Generations,
    /// Ports that hold their planned key.
    pub settled: usize,
    /// Ports that do not.
    pub behind: usize,
}
