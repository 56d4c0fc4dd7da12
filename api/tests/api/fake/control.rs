//! The requests that change a fake subnet or its simulation.

use rsm_api::model::{
    DrainQuestion, GivenUp, MissingKind, PartitionChange, PartitionChanged, PortAction,
    PortCommand, PortId, Selector, SimulationAction, SubnetState, WhenCutOff,
};
use rsm_api::resolve::{resolve_node, resolve_node_or_port};
use rsm_api::{
    BoxFuture, Control, ControlError, PartitionRefusal, Simulation, SimulationError, v1,
};
use rsm_ids::{Lid, PortNum};

use super::{Fake, counted};

impl Control for Fake {
    fn activity(&self) -> v1::Activity {
        v1::Activity {
            stage: v1::Stage::Sweeping.into(),
            cause: "requested".to_owned(),
            running_ms: 1500,
            nodes: 312,
            outstanding: 14,
            sets_acknowledged: 0,
            next: "engine updn requested".to_owned(),
            callers: 2,
            sets_expected: 0,
            questions_settled: 900,
            questions_open: 100,
        }
    }

    fn resweep(&self, full: bool) -> BoxFuture<'_, Result<v1::Convergence, ControlError>> {
        Box::pin(async move {
            if self.state == SubnetState::Standby {
                return Err(ControlError::Standby { master: Lid(9) });
            }
            let cause = if full { "full resweep" } else { "resweep" };
            Ok(add_convergence(
                &mut self.convergences.lock(),
                cause.to_owned(),
            ))
        })
    }

    fn rewrite(&self) -> BoxFuture<'_, Result<v1::Convergence, ControlError>> {
        Box::pin(async move {
            Ok(add_convergence(
                &mut self.convergences.lock(),
                "rewrite".to_owned(),
            ))
        })
    }

    fn accept_missing(&self, given_up: GivenUp) -> Result<v1::MissingParts, ControlError> {
        let mut missing = self.missing.lock();
        let is_exchanged = |missing: &v1::Missing| missing.kind() == MissingKind::Exchanged;
        let is_accepted = |missing: &v1::Missing| match &given_up {
            GivenUp::Missing => !is_exchanged(missing),
            GivenUp::Exchanged => is_exchanged(missing),
            GivenUp::Named(name) => missing.name == name.to_string(),
        };
        let accepted = missing.iter().map(|missing| &missing.message);
        let parts = counted(accepted.filter(|missing| is_accepted(missing)));
        missing.retain(|missing| !is_accepted(&missing.message));
        match parts.total() {
            0 => Err(ControlError::Refused {
                reason: "nothing is missing there".to_owned(),
            }),
            _ => Ok(parts),
        }
    }

    fn drain(
        &self,
        question: DrainQuestion,
    ) -> BoxFuture<'_, Result<Vec<v1::DrainedPart>, ControlError>> {
        Box::pin(async move {
            if !question.force {
                return Err(ControlError::Refused {
                    reason: "2 nodes would be cut off: host-1, host-2".to_owned(),
                });
            }
            Ok(vec![drained(question.by, question.note)])
        })
    }

    fn undrain(
        &self,
        parts: Vec<Selector>,
    ) -> BoxFuture<'_, Result<(Vec<String>, v1::Convergence), ControlError>> {
        Box::pin(async move {
            let cause = "drained parts are used again".to_owned();
            Ok((
                parts.iter().map(ToString::to_string).collect(),
                add_convergence(&mut self.convergences.lock(), cause),
            ))
        })
    }

    fn operate_port(
        &self,
        command: PortCommand,
    ) -> BoxFuture<'_, Result<v1::OperatePortResponse, ControlError>> {
        Box::pin(async move {
            if !command.accept_other_operator && command.action == PortAction::Enable {
                return Err(ControlError::OfAnother {
                    reason: format!("leaf-1 port 1 was disabled by bob, not by {}", command.by),
                });
            }
            if !command.accept_cut_off && command.action != PortAction::Enable {
                return Err(ControlError::CutOff {
                    ports: 1,
                    reason: "1 node would be cut off: host-1".to_owned(),
                });
            }
            let node_guid = super::guid(super::LEAF, 0).to_string();
            Ok(v1::OperatePortResponse {
                named_port: None,
                named_description: String::new(),
                port: Some(v1::PortKey {
                    node_guid,
                    number: 1,
                }),
                description: "leaf-1".to_owned(),
                convergence: Some(add_convergence(
                    &mut self.convergences.lock(),
                    command.reason,
                )),
            })
        })
    }

    fn rotate_m_keys(
        &self,
        force: bool,
    ) -> BoxFuture<'_, Result<(v1::ManagementKeys, v1::Convergence), ControlError>> {
        Box::pin(async move {
            let keys = v1::ManagementKeys {
                per_port: true,
                generation: 3,
                switch_generation: 3,
                ports: 64,
                ports_behind: 2,
            };
            let cause = format!("M_Keys are rotated, forced: {force}");
            Ok((keys, add_convergence(&mut self.convergences.lock(), cause)))
        })
    }

    fn change_partition(
        &self,
        change: PartitionChange,
    ) -> BoxFuture<'_, Result<PartitionChanged, ControlError>> {
        Box::pin(async move {
            if change.p_key == 0x67 && change.cut_off == WhenCutOff::Refuse {
                return Err(ControlError::CutOff {
                    ports: 2,
                    reason: "2 ports cut off: host-1 port 1, host-2 port 1".to_owned(),
                });
            }
            if change.p_key == 0x65 {
                return Err(ControlError::Unwritten {
                    parts: 1,
                    what: "host-1 port 1".to_owned(),
                });
            }
            if change.p_key == 0x66 {
                return Err(ControlError::Partition {
                    refusal: PartitionRefusal::Full,
                    reason: "its P_Key table is full".to_owned(),
                });
            }
            let cut_off = (change.p_key == 0x67).then(|| v1::PartitionCutOff {
                ports: 2,
                isolated_ports: 1,
                pairs: 1,
                names: vec!["host-1 port 1".to_owned(), "host-2 port 1".to_owned()],
            });
            self.partition_changes.lock().push(change);
            let cause = "partitions were changed through the API".to_owned();
            Ok(PartitionChanged {
                memberships: 1,
                cut_off,
                convergence: add_convergence(&mut self.convergences.lock(), cause),
            })
        })
    }

    fn set_engine(
        &self,
        name: String,
        cut_off: WhenCutOff,
    ) -> BoxFuture<'_, Result<v1::Convergence, ControlError>> {
        Box::pin(async move {
            if name == "nue" && cut_off == WhenCutOff::Refuse {
                return Err(ControlError::CutOff {
                    ports: 4,
                    reason: "4 ports of 4 nodes would be cut off".to_owned(),
                });
            }
            match name.as_str() {
                "auto" | "minhop" | "updn" | "nue" | "dor" => {
                    // With `auto`, and with `dor`, which fits no tree, the former engine stays.
                    if !matches!(name.as_str(), "auto" | "dor") {
                        self.engine.lock().clone_from(&name);
                    }
                    let cause = format!("engine {name} requested");
                    Ok(add_convergence(&mut self.convergences.lock(), cause))
                }
                "unsound" => Err(ControlError::Refused {
                    reason: "the routes of unsound contain a forwarding loop".to_owned(),
                }),
                _ => Err(ControlError::UnknownEngine {
                    message: format!("`{name}` is not a routing engine"),
                }),
            }
        })
    }
}

/// A leaf that `by` has drained; the paths to 2 of 40 LIDs still lead over it.
pub(super) fn drained(by: String, note: String) -> v1::DrainedPart {
    v1::DrainedPart {
        node_guid: "0x0000000000000001".to_owned(),
        name: "leaf-1".to_owned(),
        by,
        since_unix_ms: 1_700_000_000_000,
        note,
        forced: true,
        state: v1::DrainState::Carrying.into(),
        tables_checked: 1,
        lids_checked: 40,
        lids_over: 2,
        ..v1::DrainedPart::default()
    }
}

/// Adds a convergence for `cause` that writes no block, and returns it.
fn add_convergence(history: &mut Vec<v1::Convergence>, cause: String) -> v1::Convergence {
    let last = history.last().unwrap();
    let added = v1::Convergence {
        sequence: last.sequence + 1,
        generation: last.generation + 1,
        cause,
        lft_blocks: 0,
        mft_blocks: 0,
        ..last.clone()
    };
    history.push(added.clone());
    added
}

impl Fake {
    /// Checks that a cable is at a port. The port is `number`, or the one that `node` names.
    ///
    /// # Errors
    /// The node or port does not exist, no port is given, or the port has no cable.
    fn check_cable(&self, node: &Selector, number: Option<PortNum>) -> Result<(), SimulationError> {
        let (node, named_port) = resolve_node_or_port(self, node)?;
        let Some(number) = number.or(named_port) else {
            return Err(SimulationError::NoPort {
                name: node.to_string(),
            });
        };
        let port = PortId { node, number };
        match self.ports.get(&port) {
            Some(port) if port.message.peer.is_some() => Ok(()),
            _ => Err(SimulationError::NoCable { port }),
        }
    }
}

impl Simulation for Fake {
    fn act(&self, action: SimulationAction) -> BoxFuture<'_, Result<(), SimulationError>> {
        Box::pin(async move {
            match &action {
                SimulationAction::Unlink { node, port }
                | SimulationAction::Relink { node, port } => self.check_cable(node, *port)?,
                SimulationAction::SwapCables {
                    node,
                    port,
                    other_node,
                    other_port,
                } => {
                    self.check_cable(node, *port)?;
                    self.check_cable(other_node, *other_port)?;
                }
                SimulationAction::Reboot { node }
                | SimulationAction::PowerOff { node }
                | SimulationAction::PowerOn { node } => drop(resolve_node(self, node)?),
                SimulationAction::SetErrors { node, port, .. } => self.check_cable(node, *port)?,
                SimulationAction::SetLoss { .. } => {}
            }
            self.actions.lock().push(action);
            Ok(())
        })
    }
}
