//! Links that are up and do not become Active: routes avoid them until they do.
//!
//! A link is Active before a table leads to it. A link that an end keeps from Active, by refusal or
//! silence, would hold back every table planned to use it. So the routes avoid it; the core brings
//! up its ports all the same, as often as other repairs, and plans routes over it once it is
//! Active.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::push::Push;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_plan::avoid;

use super::Core;

impl Core {
    /// Takes links that a push could not make Active out of the routes, and takes those in again
    /// that are Active by now.
    pub(super) fn note_unopened(&mut self, push: &Push) {
        let known = self.inert.len();
        self.inert.extend(push.unopened());
        let found = self.inert.len() > known;
        let before = self.inert.len();
        let out = self.kept_out();
        if self.inert.len() < before {
            self.work
                .plan_again("links that routes were kept off became Active, or went");
        } else if found {
            self.work
                .plan_again("routes are kept off links that do not become Active");
        }
        self.damped = Arc::new(out);
    }

    /// The links that routes avoid: they flap, or do not become Active. Flapping ones that alone
    /// join switches with others are used all the same.
    pub(super) fn kept_out(&mut self) -> BTreeSet<PortKey> {
        let inventory = &self.inventory;
        self.inert.retain(|&port| is_up_and_idle(inventory, port));
        let mut out = self.damping.suppressed();
        out.extend(&self.inert);
        let flapping = self.damping.quietest_first();
        let flapping = flapping.filter(|port| !self.inert.contains(port));
        for needed in avoid::needed(&self.fabric, &out, flapping) {
            out.remove(&needed);
        }
        out
    }
}

fn is_up_and_idle(inventory: &Inventory, port: PortKey) -> bool {
    let peer = inventory.port(port).and_then(|record| record.peer);
    let ends = [Some(port), peer].map(|end| end.and_then(|end| inventory.port(end)));
    let [Some(one), Some(other)] = ends else {
        return false;
    };
    one.is_up() && other.is_up() && !(one.is_active() && other.is_active())
}
