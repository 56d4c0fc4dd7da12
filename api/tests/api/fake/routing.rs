use rsm_api::model::{Keyed, LossSelector, Page, PortId, Selector};
use rsm_api::resolve::{resolve_node, resolve_port};
use rsm_api::{BoxFuture, RoutingError, RoutingQueries, v1};
use rsm_ids::PortNum;

use super::{Fake, GENERATION, HOST, LEAF, guid, peer_of};

impl Fake {
    fn named(&self, node: rsm_ids::Guid, number: u8) -> (Option<v1::PortKey>, String) {
        let number = PortNum(number);
        let key = PortId { node, number };
        (Some(key.into()), self.nodes[&node].description.clone())
    }
}

impl RoutingQueries for Fake {
    fn engines(&self) -> Page<v1::Engine> {
        let engine = |name: &str, guarantee: &str, configured, in_force| v1::Engine {
            name: name.to_owned(),
            guarantee: guarantee.to_owned(),
            configured,
            in_force,
        };
        Page {
            generation: GENERATION,
            items: vec![
                engine("auto", "what it chooses promises", true, false),
                engine("minhop", "shortest paths", false, false),
                engine("updn", "never a credit loop", false, true),
            ],
        }
    }

    fn quality(
        &self,
        seed: u64,
    ) -> BoxFuture<'_, Result<v1::GetRoutingQualityResponse, RoutingError>> {
        Box::pin(async move {
            let contention = |max: u32, phases| {
                Some(v1::Contention {
                    max,
                    mean: f64::from(max) / 2.0,
                    phases,
                    of: 3,
                })
            };
            let spine = *self.nodes.keys().next().unwrap();
            let (port, description) = self.named(spine, 1);
            let (peer, peer_description) = self.named(guid(LEAF, 0), 2);
            let quality = v1::RoutingQuality {
                engine: "updn".to_owned(),
                hosts: 4,
                links: 8,
                lost_pairs: 0,
                paths: Some(v1::PathLoad {
                    max: 3,
                    mean: 2.0,
                    rate_max_over_mean: 1.5,
                }),
                all_to_all: 2,
                shift: contention(2, 3),
                random: contention(u32::try_from(seed).unwrap(), 2),
                bisection: Some(v1::Bisection {
                    mean: 0.75,
                    min: 0.5,
                    samples: 100,
                }),
                ring: contention(1, 1),
                recursive_doubling: contention(2, 3),
                double_tree: contention(3, 1),
                rail_all_to_all: None,
                worst_links: vec![v1::LinkUse {
                    port,
                    description,
                    peer,
                    peer_description,
                    paths: 3,
                    sources: 3,
                    destinations: 1,
                }],
                balance: v1::Balance::Even.into(),
                verdict: "balanced: none of 8 link directions has more than 1.20 times its share of the paths".to_owned(),
            };
            Ok(v1::GetRoutingQualityResponse {
                quality: Some(quality),
                generation: GENERATION,
            })
        })
    }

    fn foresee(
        &self,
        losses: Vec<LossSelector>,
    ) -> BoxFuture<'_, Result<v1::ForeseeLossResponse, RoutingError>> {
        Box::pin(async move {
            let loss = losses.into_iter().next().expect("the server refuses none");
            let (node, number) = match loss {
                LossSelector::Cable(port) => {
                    let key = resolve_port(self, &port)?;
                    (key.node, key.number)
                }
                LossSelector::Node(node) | LossSelector::Part(node) => {
                    (resolve_node(self, &node)?, PortNum(1))
                }
            };
            let key = PortId { node, number };
            let peer = peer_of(&self.ports[&key]);
            let peer = peer.ok_or_else(|| RoutingError::Impossible {
                reason: format!("there is no cable at {key}"),
            })?;
            let (port, description) = self.named(node, number.0);
            let (peer, peer_description) = self.named(peer.node, peer.number.0);
            let consequence = v1::Consequence {
                cut_off: vec![v1::CutOffPort {
                    port: peer.clone(),
                    description: peer_description.clone(),
                }],
                cables: vec![v1::LostCable {
                    port,
                    description,
                    peer,
                    peer_description,
                }],
                broken_pairs: 6,
                unreachable_pairs: 0,
                refused: String::new(),
                engine: "updn".to_owned(),
                reason: "auto: any graph, never a credit loop".to_owned(),
                entries: 5,
                switches: 3,
                blocks: 3,
                blocks_before: 1,
                smps: 4,
                max_paths_now: 3,
                max_paths_then: 4,
                credit_loop_free: true,
                drain_refused: "1 node would be cut off: host-1".to_owned(),
                unplug: v1::Unplug::DrainHost.into(),
                max_paths_drained: 6,
                drain_effect: "2 live hosts at leaf-1 will share one uplink, port 3 (2 now)"
                    .to_owned(),
            };
            Ok(v1::ForeseeLossResponse {
                consequence: Some(consequence),
                generation: GENERATION,
            })
        })
    }

    fn cable_use(
        &self,
        port: Selector,
    ) -> BoxFuture<'_, Result<v1::GetCableUseResponse, RoutingError>> {
        Box::pin(async move {
            let key = resolve_port(self, &port)?;
            let ends = |link: &v1::Link| {
                let ports = [&link.a, &link.b].map(|end| end.as_ref()?.port.clone());
                ports.contains(&Some(key.into()))
            };
            let link = self.links.values().find(|link| ends(link));
            let link = link.ok_or_else(|| RoutingError::Impossible {
                reason: format!("there is no cable at `{port}`"),
            })?;
            Ok(v1::GetCableUseResponse {
                cable: Some(v1::CableUse {
                    link: Some(link.clone()),
                    paths_from_a: 2,
                    paths_from_b: 3,
                    hosts: 2,
                    lids_over: 4,
                    unplug: v1::Unplug::DrainFirst.into(),
                }),
                generation: GENERATION,
            })
        })
    }

    fn cable_hosts(
        &self,
        port: Selector,
        after: Option<PortId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<PortId, v1::CableHost>>, RoutingError>> {
        Box::pin(async move {
            resolve_port(self, &port)?;
            let host = |number: u64, sends_to| {
                let key = PortId {
                    node: guid(HOST, number),
                    number: PortNum(1),
                };
                let (port, description) = self.named(key.node, 1);
                Keyed {
                    key,
                    message: v1::CableHost {
                        port,
                        description,
                        sends_to,
                        receives_from: 1,
                    },
                }
            };
            let hosts = [host(0, 1), host(1, 2)].into_iter();
            let hosts = hosts.filter(|host| after.is_none_or(|after| host.key > after));
            Ok(Page {
                generation: GENERATION,
                items: hosts.take(limit).collect(),
            })
        })
    }
}
