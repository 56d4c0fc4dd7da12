//! Sets the cfg `peers` when every foreign program of the peer tests is installed.

#[path = "src/peer/packages.rs"]
mod packages;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(peers)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/peer/packages.rs");
    println!("cargo::rerun-if-env-changed=RSM_REQUIRE_PEERS");
    println!("cargo::rerun-if-env-changed=PATH");
    let mut missing = Vec::new();
    for (program, package) in packages::PROGRAMS {
        match packages::find_program(program) {
            Some(path) => println!("cargo::rerun-if-changed={}", path.display()),
            None if !missing.contains(package) => missing.push(package),
            None => {}
        }
    }
    let required = std::env::var_os("RSM_REQUIRE_PEERS").is_some_and(|value| value == "1");
    if missing.is_empty() || required {
        println!("cargo::rustc-cfg=peers");
    } else {
        // Search again at the next build: a path that does not exist counts as changed.
        println!("cargo::rerun-if-changed=a-peer-is-missing");
        println!("cargo::warning=peer tests are ignored; missing Debian packages: {missing:?}");
    }
}
