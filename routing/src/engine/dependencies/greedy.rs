//! The greedy order of channels: sources first, sinks last, and otherwise the channel that gains
//! most by coming next.

use std::collections::BinaryHeap;

use super::{ChannelOrder, NEEDED, Wanted};
use crate::engine::channels::Channels;

/// Computes an order that makes much of the `wanted` traffic legal, by placing one channel at a
/// time. Of channels with equal gain, the first one in `ties` is placed.
pub(super) fn order(channels: &Channels, wanted: &Wanted, ties: &ChannelOrder) -> ChannelOrder {
    let mut greedy = Greedy::new(channels, wanted, ties);
    let mut front = Vec::with_capacity(channels.count());
    let mut back = Vec::new();
    loop {
        if let Some(sink) = greedy.sinks.pop() {
            if greedy.remove(sink) {
                back.push(sink);
            }
        } else if let Some(source) = greedy.sources.pop() {
            if greedy.remove(source) {
                front.push(source);
            }
        } else if let Some((gain, _, channel)) = greedy.heap.pop() {
            if gain == greedy.gain(channel) && greedy.remove(channel) {
                front.push(channel);
            }
        } else {
            break;
        }
    }
    front.extend(back.into_iter().rev());
    ChannelOrder::of(front)
}

/// The state of the greedy order: the channels not yet placed, and their traffic.
struct Greedy<'a> {
    channels: &'a Channels,
    wanted: &'a Wanted,
    ties: &'a ChannelOrder,
    /// Traffic of the turns into each channel from channels not yet placed. Each turn that the tree
    /// needs adds [`NEEDED`].
    inward: Vec<u64>,
    /// Traffic of the turns out of each channel to channels not yet placed.
    outward: Vec<u64>,
    placed: Vec<bool>,
    sources: Vec<u32>,
    sinks: Vec<u32>,
    /// Entries of (gain, reversed place in the order of ties, channel); gains may be out of date.
    heap: BinaryHeap<(i64, std::cmp::Reverse<u32>, u32)>,
}

impl<'a> Greedy<'a> {
    fn new(channels: &'a Channels, wanted: &'a Wanted, ties: &'a ChannelOrder) -> Greedy<'a> {
        let count = channels.count();
        let mut greedy = Greedy {
            channels,
            wanted,
            ties,
            inward: vec![0; count],
            outward: vec![0; count],
            placed: vec![false; count],
            sources: Vec::new(),
            sinks: Vec::new(),
            heap: BinaryHeap::new(),
        };
        for input in 0..count as u32 {
            for output in channels.out_of(channels.to(input)) {
                let weight = wanted[channels.turn(input, output)];
                greedy.outward[input as usize] += weight;
                greedy.inward[output as usize] += weight;
            }
        }
        for channel in 0..count as u32 {
            greedy.enqueue(channel);
        }
        greedy
    }

    /// The traffic that becomes legal less the traffic that is refused if the channel comes next.
    fn gain(&self, channel: u32) -> i64 {
        let traffic = |weight: u64| (weight % NEEDED) as i64;
        traffic(self.outward[channel as usize]) - traffic(self.inward[channel as usize])
    }

    /// Queues `channel` as a sink, a source, or a candidate with its present gain.
    fn enqueue(&mut self, channel: u32) {
        if self.outward[channel as usize] == 0 {
            self.sinks.push(channel);
        } else if self.inward[channel as usize] == 0 {
            self.sources.push(channel);
        } else if self.inward[channel as usize] < NEEDED {
            // A channel that a needed turn still enters waits until that turn's input is placed.
            let tie = std::cmp::Reverse(self.ties.place(channel));
            self.heap.push((self.gain(channel), tie, channel));
        }
    }

    /// Removes a channel and its turns; `false` if it was already removed.
    fn remove(&mut self, channel: u32) -> bool {
        if std::mem::replace(&mut self.placed[channel as usize], true) {
            return false;
        }
        for output in self.channels.out_of(self.channels.to(channel)) {
            let weight = self.wanted[self.channels.turn(channel, output)];
            if weight > 0 && !self.placed[output as usize] {
                self.inward[output as usize] -= weight;
                self.enqueue(output);
            }
        }
        for out in self.channels.out_of(self.channels.from(channel)) {
            let input = self.channels.reverse(out);
            let weight = self.wanted[self.channels.turn(input, channel)];
            if weight > 0 && !self.placed[input as usize] {
                self.outward[input as usize] -= weight;
                self.enqueue(input);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Tree, sift};
    use super::*;
    use crate::generate::generate;
    use crate::topology::Topology;

    fn with_order(spec: &str, check: impl Fn(&Channels, &Tree, &ChannelOrder)) {
        let netlist = generate(spec).expect("a fabric");
        let topology = Topology::from_netlist(&netlist).expect("few enough ports");
        let channels = Channels::of(&topology);
        let tree = Tree::new(&topology, &channels);
        check(&channels, &tree, &tree.order(&topology, &channels));
    }

    #[test]
    fn acyclic_traffic_is_legal_as_a_whole() {
        with_order("torus:4x4", |channels, _, ties| {
            // Wants every turn from a channel to one of a higher number.
            let mut wanted = vec![0; channels.turns()];
            for input in 0..channels.count() as u32 {
                for output in channels.out_of(channels.to(input)).filter(|&to| to > input) {
                    wanted[channels.turn(input, output)] = 1 + u64::from(input % 7);
                }
            }
            assert_eq!(order(channels, &wanted, ties).refused(channels, &wanted), 0);
        });
    }

    #[test]
    fn all_turns_of_the_tree_are_legal_under_any_traffic() {
        for spec in [
            "torus:4x4",
            "ring:7",
            "fat-tree:k=4,levels=3",
            "random:switches=30,degree=5",
        ] {
            with_order(spec, |channels, tree, ties| {
                let needed = tree.needed(channels, vec![0; channels.turns()]);
                let traffic = (0..channels.turns() as u64).map(|turn| turn * 7919 % 1009);
                let wanted = tree.needed(channels, traffic.collect());
                let greedy = order(channels, &wanted, ties);
                assert_eq!(greedy.refused(channels, &needed), 0, "{spec}");
                let before = greedy.refused(channels, &wanted);
                let improved = sift::improve(channels, &wanted, greedy);
                assert_eq!(improved.refused(channels, &needed), 0, "{spec}");
                assert!(improved.refused(channels, &wanted) <= before, "{spec}");
            });
        }
    }
}
