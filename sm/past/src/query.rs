//! Queries of the past: series of counts over time, and sums by port.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_store::StoreError;

use crate::chunk::{self, Columns};
use crate::port_table::{self, Entry};
use crate::quantity::{Counts, Quantity};
use crate::segment::{Frames, Item, Segment, Step, read_error};
use crate::step_accumulator::{ClassSum, Traffic};
use crate::store::PastReader;
use crate::tier::Tier;

/// Lengths of steps, in seconds, for queries that state none. All but the first two are whole
/// minutes.
const STEPS_S: [u64; 14] = [
    10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
];

/// Maximum number of points of a series for a query that states no step.
const MAX_POINTS: u64 = 240;

/// Minimum number of steps in a span for sums, which keeps the error small: a step that is only
/// partly in the span counts as a whole.
const STEPS_OF_SUMS: u64 = 96;

/// The part of the fabric that a query is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The traffic of all switch ports, each of which is one end of a cable, and the errors of all
    /// ports. Without switches, the traffic of all ports.
    Fabric,
    /// The ports of one node.
    Node(Guid),
    /// One port.
    Port(PortKey),
}

/// A span of time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Beginning of the span.
    pub since_unix_ms: u64,
    /// End of the span, exclusive.
    pub until_unix_ms: u64,
}

impl Span {
    /// Length of the span in milliseconds.
    fn ms(self) -> u64 {
        self.until_unix_ms.saturating_sub(self.since_unix_ms)
    }

    /// Whether the time from `from` to `until` overlaps the span.
    fn overlaps(self, from: u64, until: u64) -> bool {
        from < self.until_unix_ms && until >= self.since_unix_ms
    }
}

/// Counters to read. Reading only error counters is much faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The error counters.
    Errors,
    /// All counters.
    All,
}

/// Counts of a part in successive steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// Length of a step in milliseconds, at least the time between two readings.
    pub step_ms: u64,
    /// Steps with a reading, by ascending time. The counts of missing steps are unknown.
    pub points: Vec<Point>,
}

/// Counts of a part in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Start of the step, in milliseconds since the Unix epoch.
    pub start_unix_ms: u64,
    /// Number of ports whose traffic is known.
    pub ports: u32,
    /// Sum, over the ports, of the seconds in which the traffic was counted; 0 if the traffic is
    /// unknown.
    pub port_seconds: u64,
    /// Counts of the step.
    pub counts: Counts,
}

impl Point {
    /// Counts per second of all ports of the part together; `None` if the traffic is unknown.
    pub fn per_second(&self, quantity: Quantity) -> Option<f64> {
        let seconds = self.port_seconds as f64 / f64::from(self.ports.max(1));
        (self.port_seconds > 0).then(|| self.counts[quantity] as f64 / seconds)
    }
}

/// Traffic and errors of each port of a node in successive steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trends {
    /// Length of a step in milliseconds, at least the time between two readings.
    pub step_ms: u64,
    /// Counts of each port by the start of each step in which a port was read, in milliseconds
    /// since the Unix epoch.
    pub steps: BTreeMap<u64, BTreeMap<PortNum, Trend>>,
}

/// Traffic and errors of a port in a step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Trend {
    /// Seconds in which the traffic was counted; 0 if the traffic is unknown.
    pub seconds: u64,
    /// Data sent plus data received, in words of 4 bytes.
    pub words: u64,
    /// Number of errors, as [`Counts::errors`] counts them.
    pub errors: u64,
}

/// Counts of a port in a span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The port.
    pub port: PortKey,
    /// Whether the port's node is a switch.
    pub is_switch: bool,
    /// Seconds for which the port was counted in the span; 0 if its past is unknown.
    pub seconds: u64,
    /// Counts; traffic is zero if only errors were read.
    pub counts: Counts,
    /// Errors that occurred, by counter.
    pub errors: BTreeMap<Quantity, MovedErrors>,
}

/// Number and times of the errors of one counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovedErrors {
    /// Number of errors.
    pub count: u64,
    /// Number of these errors in steps whose readings cover no time before the span. The other
    /// errors may have occurred before it.
    pub count_in_span: u64,
    /// Time of the first reading of the first step with errors, in milliseconds since the Unix
    /// epoch.
    pub first_unix_ms: u64,
    /// Time of the last reading of the last step with errors, in milliseconds since the Unix epoch.
    pub last_unix_ms: u64,
}

/// Errors of a port before correction in a step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CorrectedStep {
    /// Symbols that were corrected.
    pub symbols: u64,
    /// Times that the link went down.
    pub link_downs: u64,
}

/// Times of the first and last reading of each step of coarser tiers, in milliseconds since the
/// Unix epoch, ascending.
#[derive(Default)]
struct Covered(Vec<(u64, u64)>);

impl Covered {
    /// Whether a coarser step contains the time from `from` to `until`.
    fn contains(&self, from: u64, until: u64) -> bool {
        let after = self.0.partition_point(|&(begin, _)| begin <= from);
        let before = after.checked_sub(1).map(|at| self.0[at]);
        before.is_some_and(|(_, end)| until <= end)
    }
}

/// Gets the segments and steps of a query, one after the other.
trait Visitor {
    /// Called when a segment begins; each segment has a port table of its own.
    fn begin(&mut self);
    /// Called for each entry of the segment's port table.
    fn entry(&mut self, number: usize, entry: Entry);
    /// Called for each step of the segment.
    fn step(&mut self, tier: Tier, step: &Step, frames: &Frames) -> io::Result<()>;
    /// Called when the segment ends.
    fn end(&mut self);
}

impl PastReader {
    /// Counts of `part` in `span`, in steps of `step_ms`; if that is `None`, in at most 240 steps.
    /// The steps are longer if readings were less frequent, or if finer steps are no longer kept.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn series(
        &self,
        part: Part,
        span: Span,
        step_ms: Option<u64>,
    ) -> Result<Series, StoreError> {
        let wanted = step_ms.unwrap_or_else(|| rounded_step(span.ms() / MAX_POINTS));
        let main_tier = self.tier_for(span, wanted);
        let mut visitor = SeriesVisitor {
            part,
            numbers: Vec::new(),
            steps: Vec::new(),
        };
        self.visit(main_tier, span, &mut visitor)?;
        let steps = visitor.steps.iter();
        let step_ms = lengthened(
            wanted,
            main_tier,
            steps.map(|step| (step.tier, step.sum.max_interval)),
        );
        let mut points: BTreeMap<u64, Point> = BTreeMap::new();
        for step in visitor.steps {
            let start_unix_ms = step.start - step.start % step_ms;
            let point = points.entry(start_unix_ms).or_insert(Point {
                start_unix_ms,
                ports: 0,
                port_seconds: 0,
                counts: Counts::default(),
            });
            point.ports = point.ports.max(step.sum.ports);
            point.port_seconds += step.sum.seconds;
            point.counts.add(&step.sum.counts);
        }
        Ok(Series {
            step_ms,
            points: points.into_values().collect(),
        })
    }

    /// Traffic and errors of each port of `node` in `span`, in steps as of [`PastReader::series`].
    /// Takes as long as one series.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn trends(
        &self,
        node: Guid,
        span: Span,
        step_ms: Option<u64>,
    ) -> Result<Trends, StoreError> {
        let wanted = step_ms.unwrap_or_else(|| rounded_step(span.ms() / MAX_POINTS));
        let main_tier = self.tier_for(span, wanted);
        let mut visitor = TrendVisitor {
            node,
            numbers: Vec::new(),
            port_steps: Vec::new(),
        };
        self.visit(main_tier, span, &mut visitor)?;
        let port_steps = visitor.port_steps.iter();
        let intervals = port_steps.map(|step| (step.tier, step.max_interval));
        let step_ms = lengthened(wanted, main_tier, intervals);
        let mut steps: BTreeMap<u64, BTreeMap<PortNum, Trend>> = BTreeMap::new();
        for step in visitor.port_steps {
            let start = step.start - step.start % step_ms;
            let trend = (steps.entry(start).or_default())
                .entry(step.port)
                .or_default();
            trend.seconds += step.trend.seconds;
            trend.words = trend.words.saturating_add(step.trend.words);
            trend.errors = trend.errors.saturating_add(step.trend.errors);
        }
        Ok(Trends { step_ms, steps })
    }

    /// Errors before correction of each of `ports` in `span`, by the start of each step of
    /// `step_ms`, in milliseconds since the Unix epoch. Omits steps without such errors, and ports
    /// without such steps.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn corrected(
        &self,
        ports: &BTreeSet<PortKey>,
        span: Span,
        step_ms: u64,
    ) -> Result<BTreeMap<PortKey, BTreeMap<u64, CorrectedStep>>, StoreError> {
        let main_tier = self.tier_for(span, step_ms);
        let mut visitor = CorrectedVisitor {
            ports,
            step_ms,
            numbers: HashMap::new(),
            corrected: BTreeMap::new(),
        };
        self.visit(main_tier, span, &mut visitor)?;
        Ok(visitor.corrected)
    }

    /// Counts of each of `ports` in `span`, or of every port if `ports` is `None`, in the order of
    /// ports. Omits ports that were not read. A step that is only partly in the span counts as a
    /// whole; a step is about a hundredth of the span, or the shortest one that is still kept.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn moved(
        &self,
        ports: Option<&BTreeSet<PortKey>>,
        span: Span,
        wanted: Wanted,
    ) -> Result<Vec<Moved>, StoreError> {
        let main_tier = self.tier_for(span, span.ms() / STEPS_OF_SUMS);
        let mut visitor = SumVisitor {
            ports,
            since_unix_ms: span.since_unix_ms,
            with_traffic: wanted == Wanted::All,
            entries: Vec::new(),
            sums: Vec::new(),
            errors: BTreeMap::new(),
            moved: HashMap::new(),
        };
        self.visit(main_tier, span, &mut visitor)?;
        let mut moved: Vec<Moved> = visitor.moved.into_values().collect();
        moved.sort_by_key(|one| one.port);
        Ok(moved)
    }

    /// Time of the earliest reading kept, in milliseconds since the Unix epoch; `None` if there is
    /// none.
    pub fn began_unix_ms(&self) -> Option<u64> {
        Tier::ALL
            .into_iter()
            .filter_map(|tier| self.oldest(tier))
            .min()
    }

    /// Time of the earliest reading in a tier, in milliseconds since the Unix epoch; `None` if
    /// there is none.
    fn oldest(&self, tier: Tier) -> Option<u64> {
        let segments = self.segments(tier);
        let with_steps = segments.iter().filter(|segment| segment.steps > 0);
        with_steps.map(|segment| segment.from).min()
    }

    /// The coarsest tier whose steps are at most `step_ms` long, or the finest one. A coarser tier
    /// if that tier reaches further back, and the finer one does not reach the beginning of the
    /// span.
    fn tier_for(&self, span: Span, step_ms: u64) -> Tier {
        let fits = |tier: &&Tier| tier.step_ms() <= step_ms;
        let fitting = Tier::ALL.iter().rev().find(fits);
        let mut main_tier = fitting.copied().unwrap_or(Tier::Seconds);
        let reach = |tier| self.oldest(tier).unwrap_or(u64::MAX);
        for coarser in Tier::ALL {
            if coarser > main_tier
                && reach(main_tier) > span.since_unix_ms
                && reach(coarser) < reach(main_tier)
            {
                main_tier = coarser;
            }
        }
        main_tier
    }

    /// Visits the steps of `main_tier` in a span, and the steps of finer tiers at times that no
    /// coarser step covers: after the last coarser step, and where a crash lost one.
    fn visit(
        &self,
        main_tier: Tier,
        span: Span,
        visitor: &mut dyn Visitor,
    ) -> Result<(), StoreError> {
        let mut covered = Covered::default();
        for tier in Tier::ALL
            .into_iter()
            .rev()
            .filter(|&tier| tier <= main_tier)
        {
            let mut visited = Vec::new();
            for segment in self.segments(tier) {
                if segment.steps > 0 && span.overlaps(segment.from, segment.until) {
                    self.visit_segment(tier, &segment, span, &covered, &mut visited, visitor)?;
                }
            }
            covered.0.extend(visited);
            covered.0.sort_unstable();
        }
        Ok(())
    }

    /// Visits the steps of a segment in a span, except steps in `covered`. Adds their times to
    /// `visited`.
    fn visit_segment(
        &self,
        tier: Tier,
        segment: &Arc<Segment>,
        span: Span,
        covered: &Covered,
        visited: &mut Vec<(u64, u64)>,
        visitor: &mut dyn Visitor,
    ) -> Result<(), StoreError> {
        let failed = |error| read_error(&segment.path, error);
        // A segment without a file was removed to keep the bounds.
        let opened = Frames::open(&self.disk, &segment.path, Some(segment.bytes))?;
        let Some(mut frames) = opened else {
            return Ok(());
        };
        visitor.begin();
        while let Some(item) = frames.next().map_err(failed)? {
            match item {
                Item::PortTable(entries) => {
                    port_table::decode(&entries, |number, entry| visitor.entry(number, entry));
                }
                Item::Step(step) => {
                    let (from, until) = (step.head.from, step.head.until);
                    if span.overlaps(from, until) && !covered.contains(from, until) {
                        visited.push((from, until));
                        visitor.step(tier, &step, &frames).map_err(failed)?;
                    }
                }
            }
        }
        visitor.end();
        Ok(())
    }
}

/// Length of a step in milliseconds: `wanted`, or longer if steps of `main_tier` are longer or
/// readings were less frequent. `intervals` has, for each step, its tier and the maximum number of
/// seconds between two readings of a port.
fn lengthened(wanted: u64, main_tier: Tier, intervals: impl Iterator<Item = (Tier, u32)>) -> u64 {
    let rare = intervals.map(|(tier, max_interval)| {
        // A reading that spans more than a step of its tier is the only one in its step.
        let interval_ms = u64::from(max_interval) * 900;
        let is_rare = interval_ms > tier.step_ms() * 5 / 4;
        if is_rare {
            rounded_step(interval_ms)
        } else {
            0
        }
    });
    let step_ms = wanted.max(main_tier.step_ms()).max(rare.max().unwrap_or(0));
    step_ms.next_multiple_of(main_tier.step_ms())
}

/// The first of [`STEPS_S`] that is at least `ms` long, in milliseconds; if none is, the next whole
/// number of days.
fn rounded_step(ms: u64) -> u64 {
    const DAY_MS: u64 = 86_400_000;
    let usual = STEPS_S.into_iter().map(|seconds| seconds * 1000);
    let first = usual.clone().find(|&step| step >= ms);
    first.unwrap_or_else(|| ms.div_ceil(DAY_MS).saturating_mul(DAY_MS))
}

/// Counts of a part in a step of a tier.
struct StepSum {
    tier: Tier,
    /// Start of the step, in milliseconds since the Unix epoch.
    start: u64,
    sum: ClassSum,
}

/// Adds up the counts of a part in each step.
struct SeriesVisitor {
    part: Part,
    /// Numbers, in the port table, of the part's ports in the segment, ascending.
    numbers: Vec<usize>,
    steps: Vec<StepSum>,
}

impl Visitor for SeriesVisitor {
    fn begin(&mut self) {
        self.numbers.clear();
    }

    fn entry(&mut self, number: usize, entry: Entry) {
        let is_of_part = match self.part {
            Part::Fabric => false,
            Part::Node(node) => entry.key.node == node,
            Part::Port(port) => entry.key == port,
        };
        if is_of_part {
            self.numbers.push(number);
        }
    }

    fn step(&mut self, tier: Tier, step: &Step, frames: &Frames) -> io::Result<()> {
        let sum = match self.part {
            Part::Fabric => fabric(step),
            Part::Node(_) | Part::Port(_) => {
                let mut sum = ClassSum::default();
                let same_chunk = |a: &usize, b: &usize| a / chunk::PORTS == b / chunk::PORTS;
                for numbers in self.numbers.chunk_by(same_chunk) {
                    let chunk = numbers[0] / chunk::PORTS;
                    if let Some(columns) = frames.columns(step, chunk, true)? {
                        add_ports(&columns, numbers, &mut sum);
                    }
                }
                sum
            }
        };
        if sum != ClassSum::default() {
            let start = step.head.start;
            self.steps.push(StepSum { tier, start, sum });
        }
        Ok(())
    }

    fn end(&mut self) {}
}

/// The sums of [`Part::Fabric`] in a step.
fn fabric(step: &Step) -> ClassSum {
    let [switches, others] = step.head.sums;
    if switches.ports == 0 {
        let mut sum = others;
        sum.counts.add(&switches.counts);
        return sum;
    }
    let mut sum = switches;
    for quantity in Quantity::errors() {
        sum.counts[quantity] = sum.counts[quantity].saturating_add(others.counts[quantity]);
    }
    sum
}

/// Adds the counts of the ports with these numbers, ascending and all in the chunk of `columns`.
fn add_ports(columns: &Columns, numbers: &[usize], sum: &mut ClassSum) {
    for number in numbers {
        let port = number % chunk::PORTS;
        let seconds = columns.seconds.get(port).copied().unwrap_or(0);
        if seconds == 0 {
            continue;
        }
        sum.ports += 1;
        sum.seconds += u64::from(seconds);
        sum.max_interval = sum.max_interval.max(seconds);
        for (index, count) in columns.traffic[port].into_iter().enumerate() {
            let total = &mut sum.counts.0[index];
            *total = total.saturating_add(count);
        }
    }
    let first = numbers[0] - numbers[0] % chunk::PORTS;
    for &(port, quantity, count) in &columns.errors {
        if numbers.binary_search(&(first + port)).is_ok() {
            sum.counts[quantity] = sum.counts[quantity].saturating_add(count);
        }
    }
}

/// Counts of a port in a step of a tier.
struct PortStep {
    tier: Tier,
    /// Start of the step, in milliseconds since the Unix epoch.
    start: u64,
    port: PortNum,
    /// Maximum number of seconds between two readings.
    max_interval: u32,
    trend: Trend,
}

/// Adds up traffic and errors of each port of a node in each step.
struct TrendVisitor {
    node: Guid,
    /// The node's ports in the segment: their numbers in the port table, ascending, and at the
    /// node.
    numbers: Vec<(usize, PortNum)>,
    port_steps: Vec<PortStep>,
}

impl Visitor for TrendVisitor {
    fn begin(&mut self) {
        self.numbers.clear();
    }

    fn entry(&mut self, number: usize, entry: Entry) {
        if entry.key.node == self.node {
            self.numbers.push((number, entry.key.port));
        }
    }

    fn step(&mut self, tier: Tier, step: &Step, frames: &Frames) -> io::Result<()> {
        let chunk_of = |number: &(usize, PortNum)| number.0 / chunk::PORTS;
        for numbers in self.numbers.chunk_by(|a, b| chunk_of(a) == chunk_of(b)) {
            let Some(columns) = frames.columns(step, chunk_of(&numbers[0]), true)? else {
                continue;
            };
            for &(number, port) in numbers {
                let sum = sum_of(&columns, number);
                if sum != ClassSum::default() {
                    self.port_steps.push(PortStep {
                        tier,
                        start: step.head.start,
                        port,
                        max_interval: sum.max_interval,
                        trend: Trend {
                            seconds: sum.seconds,
                            words: sum.counts[Quantity::XmitData]
                                .saturating_add(sum.counts[Quantity::RcvData]),
                            errors: sum.counts.errors(),
                        },
                    });
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) {}
}

/// Counts of the port with this number in the port table.
fn sum_of(columns: &Columns, number: usize) -> ClassSum {
    let mut sum = ClassSum::default();
    add_ports(columns, &[number], &mut sum);
    sum
}

/// Adds up the errors before correction of each wanted port in each step.
struct CorrectedVisitor<'a> {
    ports: &'a BTreeSet<PortKey>,
    step_ms: u64,
    /// Wanted ports of the segment, by chunk and by index in the chunk.
    numbers: HashMap<usize, BTreeMap<usize, PortKey>>,
    corrected: BTreeMap<PortKey, BTreeMap<u64, CorrectedStep>>,
}

impl Visitor for CorrectedVisitor<'_> {
    fn begin(&mut self) {
        self.numbers.clear();
    }

    fn entry(&mut self, number: usize, entry: Entry) {
        if self.ports.contains(&entry.key) {
            let chunk = self.numbers.entry(number / chunk::PORTS).or_default();
            chunk.insert(number % chunk::PORTS, entry.key);
        }
    }

    fn step(&mut self, _: Tier, step: &Step, frames: &Frames) -> io::Result<()> {
        let start = step.head.start - step.head.start % self.step_ms;
        for (&chunk, ports) in &self.numbers {
            let Some(columns) = frames.columns(step, chunk, false)? else {
                continue;
            };
            for (number, quantity, count) in columns.errors {
                let Some(&port) = ports.get(&number) else {
                    continue;
                };
                let steps = self.corrected.entry(port);
                let total = match quantity {
                    Quantity::FecCorrectedSymbols => {
                        &mut steps.or_default().entry(start).or_default().symbols
                    }
                    Quantity::LinkDowned => {
                        &mut steps.or_default().entry(start).or_default().link_downs
                    }
                    _ => continue,
                };
                *total = total.saturating_add(count);
            }
        }
        Ok(())
    }

    fn end(&mut self) {}
}

/// Adds up the counts of each wanted port.
struct SumVisitor<'a> {
    /// The wanted ports; `None` for all ports.
    ports: Option<&'a BTreeSet<PortKey>>,
    /// Start of the span, in milliseconds since the Unix epoch.
    since_unix_ms: u64,
    with_traffic: bool,
    /// Entries of the wanted ports of the segment, by number in the port table.
    entries: Vec<Option<Entry>>,
    /// Seconds and traffic, by number in the port table.
    sums: Vec<(u64, Traffic)>,
    /// Errors in the segment, by number in the port table and counter.
    errors: BTreeMap<(usize, Quantity), MovedErrors>,
    /// Counts in all previous segments.
    moved: HashMap<PortKey, Moved>,
}

impl Visitor for SumVisitor<'_> {
    fn begin(&mut self) {
        self.entries.clear();
        self.sums.clear();
        self.errors.clear();
    }

    fn entry(&mut self, number: usize, entry: Entry) {
        if self.ports.is_some_and(|ports| !ports.contains(&entry.key)) {
            return;
        }
        if self.entries.len() <= number {
            self.entries.resize(number + 1, None);
            self.sums.resize(number + 1, Default::default());
        }
        self.entries[number] = Some(entry);
    }

    fn step(&mut self, _: Tier, step: &Step, frames: &Frames) -> io::Result<()> {
        for (chunk, entries) in self.entries.chunks(chunk::PORTS).enumerate() {
            if entries.iter().all(Option::is_none) {
                continue;
            }
            let Some(columns) = frames.columns(step, chunk, self.with_traffic)? else {
                continue;
            };
            let first = chunk * chunk::PORTS;
            for (port, _) in entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.is_some())
            {
                let (seconds, traffic) = &mut self.sums[first + port];
                *seconds += u64::from(columns.seconds.get(port).copied().unwrap_or(0));
                let counts = columns.traffic.get(port).copied().unwrap_or_default();
                for (total, count) in traffic.iter_mut().zip(counts) {
                    *total = total.saturating_add(count);
                }
            }
            for (port, quantity, count) in columns.errors {
                if entries.get(port).is_none_or(Option::is_none) {
                    continue;
                }
                let (from, until) = (step.head.from, step.head.until);
                let seconds = columns.seconds.get(port).copied().unwrap_or(0);
                let is_in_span = covers_only(self.since_unix_ms, from, seconds);
                let errors = MovedErrors {
                    count,
                    count_in_span: if is_in_span { count } else { 0 },
                    first_unix_ms: from,
                    last_unix_ms: until,
                };
                add_errors(&mut self.errors, (first + port, quantity), errors);
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        for (entry, (seconds, traffic)) in self.entries.iter().zip(&self.sums) {
            let Some(entry) = entry.filter(|_| *seconds > 0) else {
                continue;
            };
            let moved = moved_of(&mut self.moved, entry);
            moved.seconds += seconds;
            for (total, count) in moved.counts.0.iter_mut().zip(traffic) {
                *total = total.saturating_add(*count);
            }
        }
        for (&(number, quantity), &errors) in &self.errors {
            let Some(entry) = self.entries[number] else {
                continue;
            };
            let moved = moved_of(&mut self.moved, entry);
            let total = &mut moved.counts[quantity];
            *total = total.saturating_add(errors.count);
            add_errors(&mut moved.errors, quantity, errors);
        }
    }
}

/// The counts of a port, which begin at zero.
fn moved_of(moved: &mut HashMap<PortKey, Moved>, entry: Entry) -> &mut Moved {
    moved.entry(entry.key).or_insert_with(|| Moved {
        port: entry.key,
        is_switch: entry.is_switch,
        seconds: 0,
        counts: Counts::default(),
        errors: BTreeMap::new(),
    })
}

/// Whether a port's readings in a step, the first of which came at `from` or later, cover no time
/// before `since`, both in milliseconds since the Unix epoch. They cover `seconds`, which were
/// rounded; 0 if their time is unknown.
fn covers_only(since: u64, from: u64, seconds: u32) -> bool {
    let rounded_up = (u64::from(seconds) + 1) * 1000;
    seconds > 0 && from >= since.saturating_add(rounded_up)
}

/// Adds errors of a counter.
fn add_errors<K: Ord>(errors: &mut BTreeMap<K, MovedErrors>, key: K, added: MovedErrors) {
    let all = errors.entry(key).or_insert(MovedErrors {
        count: 0,
        count_in_span: 0,
        ..added
    });
    all.count = all.count.saturating_add(added.count);
    all.count_in_span = all.count_in_span.saturating_add(added.count_in_span);
    all.first_unix_ms = all.first_unix_ms.min(added.first_unix_ms);
    all.last_unix_ms = all.last_unix_ms.max(added.last_unix_ms);
}
