//! Nodes and cables that are missing, and differences of the fabric from its design, both updated
//! after each sweep.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::design::Design;
use rsm_model::expected::{Accept, Cabling, DisabledPort, Expected};
use rsm_model::fabric::{Delta, Fabric};
use rsm_model::findings::Finding;
use rsm_plan::Plan;
use rsm_plan::avoid::{Avoid, NodeOrCable};
use rsm_plan::lint::Proved;

/// The missing parts of a fabric, and the cabling in the store.
#[derive(Debug)]
pub(super) struct MissingParts {
    /// The parts that are missing.
    expected: Arc<Expected>,
    /// The findings about `expected`.
    findings: Vec<Finding>,
    /// Time of the last change of the cabling, until the next plan.
    changed_at: Option<Time>,
    /// Cabling that the core last handed to the store.
    stored: Cabling,
    /// Whether nodes or cables have appeared or vanished since `stored` was set.
    differs_from_stored: bool,
    /// Cables of the design file; empty without a design.
    design: Arc<Design>,
    /// Whether the fabric at the end of the last sweep was compared with the design.
    is_compared: bool,
}

impl MissingParts {
    /// Starts with the cabling of an earlier run: all its parts are missing until a sweep finds
    /// them.
    pub(super) fn restored(cabling: Cabling, design: Arc<Design>) -> MissingParts {
        MissingParts {
            expected: Arc::new(cabling.recalled()),
            findings: Vec::new(),
            changed_at: None,
            stored: cabling,
            differs_from_stored: false,
            design,
            is_compared: false,
        }
    }

    /// Continues with the cabling of another manager. Parts that this manager has found, in
    /// `fabric`, are not missing.
    pub(super) fn adopt(&mut self, cabling: Cabling, fabric: &Fabric) {
        let disabled = self.expected.disabled().clone();
        let mut expected = cabling.missing_from(fabric);
        expected.set_disabled(&disabled);
        self.expected = Arc::new(expected);
        if self.is_compared {
            Arc::make_mut(&mut self.expected).compare_with_design(&self.design, fabric);
        }
        self.findings = self.expected.findings(fabric);
        self.stored = cabling;
        self.differs_from_stored = true;
    }

    /// The missing parts.
    pub(super) fn expected(&self) -> &Arc<Expected> {
        &self.expected
    }

    /// The findings about missing parts and about differences from the design.
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The cabling for the store.
    pub(super) fn stored(&self) -> &Cabling {
        &self.stored
    }

    /// Whether the cabling of the fabric differs from [`MissingParts::stored`].
    pub(super) fn differs_from_stored(&self) -> bool {
        self.differs_from_stored
    }

    /// Updates the missing parts at the end of a sweep. `delta` is the difference between `before`
    /// and `new`, the fabric that the sweep found at `now`.
    pub(super) fn follow(&mut self, delta: &Delta, before: &Fabric, new: &Fabric, now: Time) {
        self.update(delta, before, new, now);
        // New names, and links that come up, leave the cabling unchanged, but may differ from the
        // design.
        let has_design = !self.design.cables.is_empty();
        if !self.is_compared || has_design && !before.rewired(new).is_empty() {
            self.compare(new);
        }
    }

    /// Updates the missing parts if the cabling has changed.
    fn update(&mut self, delta: &Delta, before: &Fabric, new: &Fabric, now: Time) {
        if delta.changes_cabling() {
            let expected = Arc::make_mut(&mut self.expected);
            expected.update(delta, before, new, now);
            self.findings = self.expected.findings(new);
            self.changed_at = Some(now);
            self.differs_from_stored = true;
        }
    }

    /// Uses another design from the end of the next sweep on.
    pub(super) fn use_design(&mut self, design: Arc<Design>) {
        self.design = design;
        self.is_compared = false;
    }

    /// Compares `fabric` with the design.
    fn compare(&mut self, fabric: &Fabric) {
        self.is_compared = true;
        Arc::make_mut(&mut self.expected).compare_with_design(&self.design, fabric);
        self.findings = self.expected.findings(fabric);
    }

    /// Records the part of the fabric that an unfinished sweep has found (`new`): at the end of the
    /// sweep, this part is no longer a difference. The comparison with the design waits until then.
    pub(super) fn record_partial(&mut self, before: &Fabric, new: &Fabric, now: Time) {
        self.update(&Delta::between(before, new), before, new, now);
        self.is_compared = false;
    }

    /// Makes `fabric` the cabling to store. Called only at the end of a pass, when ports are in
    /// their final state, because storing costs a row for each node.
    pub(super) fn set_stored(&mut self, fabric: &Arc<Fabric>) {
        self.differs_from_stored = false;
        self.stored = Cabling {
            fabric: fabric.clone(),
            missing: self.expected.clone(),
        };
    }

    /// Records how many paths `plan` moved, if it is the first plan after a loss.
    pub(super) fn count_moved(&mut self, plan: &Plan, fabric: &Fabric) {
        let Some(at) = self.changed_at.take() else {
            return;
        };
        if let Proved::Changes { ways } = plan.proved
            && ways > 0
            && self.expected.has_lost_at(at)
        {
            Arc::make_mut(&mut self.expected).record_moved_routes(at, ways);
            self.findings = self.expected.findings(fabric);
        }
    }

    /// Records the ports that `avoid` keeps disabled: their cables do not count as missing.
    pub(super) fn set_disabled(&mut self, avoid: &Avoid, fabric: &Fabric) {
        let drained = avoid.drained().filter(|(_, drained)| drained.disabled);
        let ports = drained.filter_map(|(part, drained)| match part {
            NodeOrCable::Node(_) => None,
            NodeOrCable::Port(port) => Some((
                port,
                DisabledPort {
                    by: drained.by.clone(),
                    since_unix_ms: drained.since_unix_ms,
                },
            )),
        });
        let disabled: BTreeMap<PortKey, DisabledPort> = ports.collect();
        if **self.expected.disabled() != disabled
            && Arc::make_mut(&mut self.expected).set_disabled(&Arc::new(disabled))
        {
            self.findings = self.expected.findings(fabric);
        }
    }

    /// Forgets the missing parts that an operator accepts as lost. Returns whether there were any.
    pub(super) fn accept(&mut self, accepts: Vec<Accept>, fabric: &Fabric) -> bool {
        let expected = Arc::make_mut(&mut self.expected);
        let mut has_any = false;
        for accept in accepts {
            has_any |= expected.accept(accept, fabric);
        }
        if has_any {
            self.findings = self.expected.findings(fabric);
        }
        has_any
    }
}
