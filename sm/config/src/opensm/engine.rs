//! The routing engines of OpenSM and of NVIDIA's manager, and rsm's engine for each.

use rsm_routing::engine::EngineKind;

use super::keys::Missing;

/// rsm's engine for an engine of another manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// An engine that rsm has as well.
    Same(EngineKind),
    /// The nearest engine whose routes rsm can prove.
    Like(EngineKind),
    /// The nearest engine, without adaptive routing.
    Adaptive(EngineKind),
    /// Several engines for parts of the fabric. rsm chooses one engine for the whole fabric.
    Chain,
}

impl Choice {
    pub(super) fn engine(self) -> EngineKind {
        match self {
            Choice::Same(engine) | Choice::Like(engine) | Choice::Adaptive(engine) => engine,
            Choice::Chain => EngineKind::Auto,
        }
    }
}

pub(super) const ADAPTIVE: Missing = Missing {
    lost: "rsm routes statically, by the nearest engine without adaptive routing",
    instead: "see sm.takeover, and compare the routes with `rsm plan` first",
};

pub(super) const CHAIN: Missing = Missing {
    lost: "rsm routes the whole fabric by one engine, and chooses it itself",
    instead: "compare the routes with `rsm plan` first",
};

pub(super) const UNKNOWN: Missing = Missing {
    lost: "rsm has none of these engines, and picks one itself",
    instead: "`rsmctl status` names it",
};

/// The effect of `minhop` if no other engine follows it.
pub(in super::super) const LONE_MINHOP: &str = "rsm takes shortest paths only where it proves that they close no credit \
     loop, which those of most trees with several roots do not stand; on a subnet without routes `auto` then takes \
     their place (finding engine-replaced): delete the key, or name another engine, such as `updn`, after it";

/// Engines of other managers that have no namesake in rsm, with the engine that takes their place.
const NOT_NAMESAKES: &[(&str, Choice)] = &[
    ("torus-2QoS", Choice::Like(EngineKind::Torus)),
    ("ftree", Choice::Like(EngineKind::FabricTree)),
    ("lash", Choice::Like(EngineKind::Dfsssp)),
    ("sssp", Choice::Like(EngineKind::Auto)),
    ("pqft", Choice::Like(EngineKind::FabricTree)),
    ("kdor-hc", Choice::Like(EngineKind::Dor)),
    ("kdor-ghc", Choice::Like(EngineKind::Dor)),
    ("ar_updn", Choice::Adaptive(EngineKind::Auto)),
    ("ar_ftree", Choice::Adaptive(EngineKind::FabricTree)),
    ("ar_torus", Choice::Adaptive(EngineKind::Torus)),
    ("ar_dor", Choice::Adaptive(EngineKind::Dor)),
    ("dfp", Choice::Adaptive(EngineKind::DragonflyPlus)),
    ("dfp2", Choice::Adaptive(EngineKind::DragonflyPlus)),
    ("chain", Choice::Chain),
];

/// The first engine of a comma-separated list with a counterpart in rsm, and its name in the list;
/// `None` if no engine has a counterpart. `minhop` is chosen only without an alternative: its
/// routes may deadlock, and rsm then refuses them; routes of all other engines cannot deadlock.
pub(super) fn choose(list: &str) -> Option<(&str, Choice)> {
    let known = counterparts(list);
    let is_proved = |(_, choice): &(&str, Choice)| choice.engine() != EngineKind::MinHop;
    known
        .clone()
        .find(is_proved)
        .or_else(|| known.clone().next())
}

/// The engines of a comma-separated list with a counterpart in rsm, each with its name in the list.
fn counterparts(list: &str) -> impl Iterator<Item = (&str, Choice)> + Clone {
    list.split(',').map(str::trim).filter_map(|name| {
        let same = EngineKind::ALL.into_iter().find(|e| e.name() == name);
        let other = NOT_NAMESAKES.iter().find(|(theirs, _)| *theirs == name);
        let choice = same.map(Choice::Same);
        Some((name, choice.or(other.map(|(_, choice)| *choice))?))
    })
}

/// rsm's engines for the engines after `chosen` in a list, without duplicates and without the
/// engine for `chosen`.
pub(super) fn fallbacks(list: &str, chosen: &str) -> Vec<EngineKind> {
    let mut rest = counterparts(list).skip_while(|(name, _)| *name != chosen);
    let first = rest.next().map(|(_, choice)| choice.engine());
    let mut engines = Vec::new();
    for engine in rest.map(|(_, choice)| choice.engine()) {
        if Some(engine) != first && !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    engines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallbacks_are_the_engines_after_the_chosen_one_without_duplicates() {
        for (list, chosen, engines) in [
            ("ftree,updn", "ftree", &[EngineKind::UpDn][..]),
            (
                "ftree, pqft,updn,minhop,updn",
                "ftree",
                &[EngineKind::UpDn, EngineKind::MinHop],
            ),
            ("minhop,updn", "updn", &[]),
            ("updn", "updn", &[]),
            ("torus-2QoS,none,lash", "torus-2QoS", &[EngineKind::Dfsssp]),
        ] {
            assert_eq!(fallbacks(list, chosen), engines, "{list}");
        }
    }

    #[test]
    fn first_engine_with_a_counterpart_is_chosen_and_minhop_only_if_alone() {
        for (list, engine) in [
            ("updn,minhop", Some(EngineKind::UpDn)),
            ("minhop,updn", Some(EngineKind::UpDn)),
            ("minhop", Some(EngineKind::MinHop)),
            ("minhop, none", Some(EngineKind::MinHop)),
            ("ftree,updn", Some(EngineKind::FabricTree)),
            (" none , torus-2QoS", Some(EngineKind::Torus)),
            ("ar_updn", Some(EngineKind::Auto)),
            ("chain", Some(EngineKind::Auto)),
            ("none", None),
            ("", None),
        ] {
            let chosen = choose(list).map(|(_, choice)| choice.engine());
            assert_eq!(chosen, engine, "{list}");
        }
    }
}
