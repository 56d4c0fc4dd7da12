//! The stages of a pass: sweep, plan, push; and handovers.

use rsm_hardware::push::Push;
use rsm_hardware::sweep::{Sweep, SweepScope};
use rsm_mastership::{HandingOver, StageView};
use rsm_state::Activity;

/// The stage under way.
#[derive(Debug)]
pub(super) enum Stage {
    Idle,
    Sweeping(Box<Sweep>),
    /// A job is being planned outside the core. `generation` is the number of its plan.
    Planning {
        generation: u64,
    },
    Pushing(Box<Push>),
    /// The subnet was offered to another manager, which has not answered yet.
    HandingOver(Box<HandingOver>),
}

impl Stage {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Stage::Idle)
    }

    /// The stage as operators see it; `nodes` is the number of nodes in the model.
    pub(super) fn activity(&self, nodes: usize) -> Activity {
        match self {
            // `HandingOver` lasts no longer than one answer of the other manager.
            Stage::Idle | Stage::HandingOver(_) => Activity::Idle,
            Stage::Sweeping(sweep) => Activity::Sweeping {
                nodes,
                settled: sweep.settled(),
                open: sweep.open(),
            },
            Stage::Planning { .. } => Activity::Planning,
            Stage::Pushing(push) => {
                let progress = push.report().progress();
                Activity::Pushing {
                    done: progress.done,
                    expected: progress.expected.max(progress.done),
                }
            }
        }
    }

    /// Whether the stage follows a change of the subnet or a request: a light sweep and an inquiry
    /// about managers look for changes that nothing has reported.
    pub(super) fn follows_a_change(&self) -> bool {
        match self {
            Stage::Idle | Stage::HandingOver(_) => false,
            Stage::Sweeping(sweep) => {
                sweep.scope() != SweepScope::Light && !sweep.asks_managers_only()
            }
            Stage::Planning { .. } | Stage::Pushing(_) => true,
        }
    }

    /// Stops a push under way: it sends no more Sets.
    pub(super) fn stop_push(&mut self) {
        if let Stage::Pushing(push) = self {
            push.stop();
        }
    }

    /// The stage as mastership sees it.
    pub(super) fn view(&self) -> StageView {
        match self {
            Stage::Idle => StageView::Idle,
            Stage::Sweeping(sweep) => StageView::Sweeping {
                asks_managers_only: sweep.asks_managers_only(),
            },
            Stage::HandingOver(_) => StageView::HandingOver,
            Stage::Planning { .. } | Stage::Pushing(_) => StageView::Other,
        }
    }

    /// The sweep under way; `None` in another stage.
    pub(super) fn sweep_mut(&mut self) -> Option<&mut Sweep> {
        match self {
            Stage::Sweeping(sweep) => Some(sweep),
            _ => None,
        }
    }
}
