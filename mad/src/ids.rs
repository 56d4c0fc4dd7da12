//! Identifiers that exist only between a manager and its agents.

use std::fmt;

pub use rsm_ids::Gid;
use rsm_ids::PortNum;

/// A transaction identifier (IBA 13.4.6.4), which connects a response to its request.
///
/// The Linux MAD layer replaces the upper 32 bits with its own agent number when it sends a
/// datagram, so that a response may be matched by [`Tid::low`] only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tid(pub u64);

impl Tid {
    /// The lower 32 bits, which the Linux MAD layer does not change.
    pub const fn low(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

impl fmt::Debug for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A route that is described hop by hop: the exit port at the local node, followed by the exit port
/// at every switch on the path (IBA 14.2.2).
///
/// The empty path is the local node itself. Paths order by length first, then by their ports, so
/// that sorting puts near nodes before far nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectedPath {
    len: u8,
    /// The exit ports. Entries from `len` on are port 0, so that equal paths have equal bytes.
    hops: [PortNum; DirectedPath::MAX_HOPS],
}

impl DirectedPath {
    /// The length of the longest path that an SMP can carry: it has 64 path bytes, of which the
    /// first is not used (IBA 14.2.1.2).
    pub const MAX_HOPS: usize = 63;

    /// The path to the local node.
    pub const fn new() -> DirectedPath {
        DirectedPath {
            len: 0,
            hops: [PortNum::ZERO; Self::MAX_HOPS],
        }
    }

    /// The path that leaves nodes through the ports `hops`, in this order.
    ///
    /// # Errors
    /// [`PathTooLong`] if there are more than [`DirectedPath::MAX_HOPS`] hops.
    pub fn from_hops(hops: &[PortNum]) -> Result<DirectedPath, PathTooLong> {
        let mut path = DirectedPath::new();
        for &hop in hops {
            path.push(hop)?;
        }
        Ok(path)
    }

    /// Extends the path by one hop, which leaves the last node of the path by the port `exit`.
    ///
    /// # Errors
    /// [`PathTooLong`] if the path already has [`DirectedPath::MAX_HOPS`] hops; the path is then
    /// unchanged.
    pub fn push(&mut self, exit: PortNum) -> Result<(), PathTooLong> {
        let slot = self
            .hops
            .get_mut(usize::from(self.len))
            .ok_or(PathTooLong)?;
        *slot = exit;
        self.len += 1;
        Ok(())
    }

    /// A copy of this path with one more hop.
    ///
    /// # Errors
    /// [`PathTooLong`] if the path already has [`DirectedPath::MAX_HOPS`] hops.
    pub fn child(&self, exit: PortNum) -> Result<DirectedPath, PathTooLong> {
        let mut path = *self;
        path.push(exit)?;
        Ok(path)
    }

    /// The path without its last hop; `None` if the path is empty.
    pub fn parent(&self) -> Option<DirectedPath> {
        let last = self.len.checked_sub(1)?;
        let mut path = *self;
        path.len = last;
        path.hops[usize::from(last)] = PortNum::ZERO;
        Some(path)
    }

    /// The exit ports in order from the local node.
    pub fn hops(&self) -> &[PortNum] {
        &self.hops[..usize::from(self.len)]
    }

    /// The number of hops, 0 to [`DirectedPath::MAX_HOPS`].
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the path has no hop, so that it leads to the local node itself.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for DirectedPath {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for DirectedPath {
    /// Writes the path in the form of `smpquery -D`, for example `0,1,5`; the leading 0 is the
    /// local node.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0")?;
        self.hops().iter().try_for_each(|hop| write!(f, ",{hop}"))
    }
}

impl fmt::Debug for DirectedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// A directed path cannot be longer than [`DirectedPath::MAX_HOPS`] hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a directed path has at most {} hops", DirectedPath::MAX_HOPS)]
pub struct PathTooLong;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_grow_to_their_bound_and_no_further() {
        let mut path = DirectedPath::new();
        for port in 1..=63 {
            path.push(PortNum(port)).unwrap();
        }
        let full = path;
        assert_eq!(path.push(PortNum(1)), Err(PathTooLong));
        assert_eq!(path, full);
        assert_eq!(path.len(), 63);
        assert_eq!(path.hops()[62], PortNum(63));
    }

    #[test]
    fn the_parent_of_a_child_equals_the_original_path() {
        let path = DirectedPath::from_hops(&[PortNum(1), PortNum(5)]).unwrap();
        let child = path.child(PortNum(9)).unwrap();
        assert_eq!(child.parent(), Some(path));
        assert_eq!(DirectedPath::new().parent(), None);
        assert_eq!(child.to_string(), "0,1,5,9");
    }

    #[test]
    fn shorter_paths_sort_first() {
        let far = DirectedPath::from_hops(&[PortNum(1), PortNum(1)]).unwrap();
        let near = DirectedPath::from_hops(&[PortNum(36)]).unwrap();
        assert!(DirectedPath::new() < near && near < far);
    }
}
