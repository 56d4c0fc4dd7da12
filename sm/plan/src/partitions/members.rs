//! Applies the rules of partitions to ports: the keys of each port.

use rsm_config::{Membership, PartitionMembers, Partitions, Rule};
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{NodeType, PKey};
use rsm_model::fabric::{Fabric, PortRef};

/// The keys of one port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WantedKeys {
    /// Keys, ascending by partition.
    pub(super) keys: Vec<PKey>,
    /// The key at index 0.
    pub(super) index_0: PKey,
    /// Whether a rule claims index 0 for the key `index_0`.
    pub(super) claimed: bool,
    /// Whether rules of several partitions claim index 0.
    pub(super) contested: bool,
}

impl WantedKeys {
    /// Whether the keys are only full membership in the default partition, the table of a port
    /// after power-on.
    pub(super) fn is_default(&self) -> bool {
        self.keys == [PKey::DEFAULT_FULL]
    }
}

/// Kind of a port, as rules name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemberKind {
    Of(NodeType),
    /// A virtual port.
    Virtual,
}

/// The end ports or virtual ports of a fabric, indexed for partition rules.
pub(super) struct EndPorts {
    list: Vec<PortRef>,
    /// Kind of each port, by its index in `list`.
    kinds: Vec<MemberKind>,
    /// GUIDs with indices in `list`, sorted.
    guids: Vec<(Guid, usize)>,
    /// Index in `list` of the subnet manager's port.
    own: Option<usize>,
}

impl EndPorts {
    /// Indexes the end ports `list`, which are in the order of the fabric.
    pub(super) fn of(fabric: &Fabric, list: Vec<PortRef>) -> EndPorts {
        let mut guids: Vec<(Guid, usize)> = list
            .iter()
            .enumerate()
            .map(|(index, &at)| (fabric.port(at).guid, index))
            .collect();
        guids.sort_unstable();
        EndPorts {
            kinds: list
                .iter()
                .map(|at| MemberKind::Of(fabric.node(at.node).kind()))
                .collect(),
            own: list.iter().position(|&at| is_own(fabric, at)),
            guids,
            list,
        }
    }

    /// Indexes virtual ports, each given as its port and its GUID.
    pub(super) fn of_vports(vports: Vec<(PortRef, Guid)>) -> EndPorts {
        let guids = vports.iter().enumerate();
        let mut guids: Vec<(Guid, usize)> =
            guids.map(|(index, &(_, guid))| (guid, index)).collect();
        guids.sort_unstable();
        EndPorts {
            kinds: vec![MemberKind::Virtual; vports.len()],
            own: None,
            guids,
            list: vports.into_iter().map(|(at, _)| at).collect(),
        }
    }

    /// The ports, in the order of the fabric.
    pub(super) fn list(&self) -> &[PortRef] {
        &self.list
    }

    /// The keys of each port, in the order of [`EndPorts::list`].
    pub(super) fn members(&self, partitions: &Partitions) -> Vec<WantedKeys> {
        let mut wanted: Vec<WantedKeys> = self.index_0_claims(partitions);
        let mut memberships: Vec<Option<Membership>> = vec![None; self.list.len()];
        let mut rules: Vec<&Rule> = partitions.rules.iter().collect();
        // The sort is stable: the rules of one partition stay in the order of the file.
        rules.sort_by_key(|rule| rule.p_key.base());
        for rules in rules.chunk_by(|a, b| a.p_key.base() == b.p_key.base()) {
            let p_key = PKey(rules[0].p_key.base());
            let mut touched = Vec::new();
            for rule in rules {
                self.for_each(rule.members, |index| {
                    if memberships[index].replace(rule.membership).is_none() {
                        touched.push(index);
                    }
                });
            }
            if p_key == PKey::DEFAULT_LIMITED
                && let Some(own) = self.own
                && memberships[own] == Some(Membership::Limited)
            {
                memberships[own] = Some(Membership::Full);
            }
            for index in touched {
                let membership = memberships[index].take();
                wanted[index].add_membership(p_key, membership, partitions.allow_both);
            }
        }
        for port in &mut wanted {
            port.choose_index_0();
        }
        wanted
    }

    /// One entry without keys for each port, with the partition of index 0 and the claims to it.
    fn index_0_claims(&self, partitions: &Partitions) -> Vec<WantedKeys> {
        let blank = WantedKeys {
            keys: Vec::new(),
            index_0: PKey::DEFAULT_LIMITED,
            claimed: false,
            contested: false,
        };
        let mut wanted = vec![blank; self.list.len()];
        if !partitions.rules.iter().any(|rule| rule.index0) {
            return wanted;
        }
        let mut claimed: Vec<Option<u16>> = vec![None; self.list.len()];
        for rule in &partitions.rules {
            let base = rule.p_key.base();
            self.for_each(rule.members, |index| {
                let claim = &mut claimed[index];
                if rule.index0 {
                    wanted[index].contested |= claim.is_some_and(|other| other != base);
                    *claim = Some(base);
                } else if *claim == Some(base) {
                    *claim = None;
                }
            });
        }
        for (port, claim) in wanted.iter_mut().zip(claimed) {
            if let Some(base) = claim {
                (port.index_0, port.claimed) = (PKey(base), true);
            }
        }
        wanted
    }

    /// Calls `visit` with the index of each port that `members` denotes.
    fn for_each(&self, members: PartitionMembers, mut visit: impl FnMut(usize)) {
        let mut of_kind = |kind: MemberKind| {
            let indices = self.kinds.iter().enumerate();
            indices
                .filter(|&(_, &of)| of == kind)
                .for_each(|(index, _)| visit(index));
        };
        match members {
            PartitionMembers::All => (0..self.list.len()).for_each(visit),
            PartitionMembers::ChannelAdapters => of_kind(MemberKind::Of(NodeType::Ca)),
            PartitionMembers::Switches => of_kind(MemberKind::Of(NodeType::Switch)),
            PartitionMembers::Routers => of_kind(MemberKind::Of(NodeType::Router)),
            PartitionMembers::VirtualAdapters => of_kind(MemberKind::Virtual),
            PartitionMembers::Own => self.own.into_iter().for_each(visit),
            PartitionMembers::Port(guid) => {
                let start = self.guids.partition_point(|&(other, _)| other < guid);
                let same = self.guids[start..]
                    .iter()
                    .take_while(|&&(other, _)| other == guid);
                same.for_each(|&(_, index)| visit(index));
            }
        }
    }
}

/// Whether the subnet manager runs at this end port. On a switch, the manager's port is port 0,
/// even if its SMPs use another port.
fn is_own(fabric: &Fabric, at: PortRef) -> bool {
    fabric.local.is_some_and(|local| {
        local.node == at.node && (local.port == at.port || at.port == PortNum::ZERO)
    })
}

impl WantedKeys {
    /// Adds the keys of a membership in a partition; no key if `membership` is `None`.
    fn add_membership(&mut self, p_key: PKey, membership: Option<Membership>, allow_both: bool) {
        let full = PKey(p_key.0 | 0x8000);
        match membership {
            None => {}
            Some(Membership::Limited) => self.keys.push(p_key),
            Some(Membership::Both) if allow_both => self.keys.extend([full, p_key]),
            Some(Membership::Full | Membership::Both) => self.keys.push(full),
        }
    }

    /// Chooses the key at index 0: the first key of the partition that claims index 0, if the port
    /// holds one.
    fn choose_index_0(&mut self) {
        let of = |base: u16| self.keys.iter().copied().find(|key| key.base() == base);
        let first = of(self.index_0.base());
        self.claimed &= first.is_some();
        let first = first.or_else(|| of(PKey::DEFAULT_LIMITED.base()));
        self.index_0 = first.unwrap_or(PKey::DEFAULT_FULL);
    }
}
