//! Writing the P_KeyTable of one port.

use crate::diff::PKeyBlock;

/// The blocks of one port's P_KeyTable that are to be written, and how far that is.
#[derive(Debug)]
pub(super) struct PKeyPush {
    blocks: Vec<PKeyBlock>,
    sent: bool,
    unsettled: usize,
    failed: bool,
}

impl PKeyPush {
    pub(super) fn new(blocks: Vec<PKeyBlock>) -> PKeyPush {
        PKeyPush {
            sent: blocks.is_empty(),
            blocks,
            unsettled: 0,
            failed: false,
        }
    }

    /// The blocks to be queued now: all of them, once.
    pub(super) fn take_due(&mut self) -> Vec<u16> {
        if self.sent {
            return Vec::new();
        }
        self.sent = true;
        self.unsettled = self.blocks.len();
        self.blocks.iter().map(|part| part.block).collect()
    }

    /// What a block is to hold.
    pub(super) fn block(&self, block: u16) -> Option<&PKeyBlock> {
        self.blocks.iter().find(|part| part.block == block)
    }

    /// The Set of a block was answered, or given up.
    pub(super) fn settle(&mut self, failed: bool) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.failed |= failed;
    }

    /// Whether no answer is awaited any more.
    pub(super) fn is_settled(&self) -> bool {
        self.sent && self.unsettled == 0
    }

    /// Whether the port holds its keys.
    pub(super) fn is_held(&self) -> bool {
        self.is_settled() && !self.failed
    }
}
