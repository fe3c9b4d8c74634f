//! End-to-end tests: one binary, real components.

#[cfg(test)] // so that the lints treat these files as tests
mod a2a;
#[cfg(test)]
mod console;
#[cfg(test)]
mod file_reader;
#[cfg(test)]
mod hub;
#[cfg(test)]
mod journeys;
#[cfg(test)]
mod playground;
#[cfg(test)]
mod transports;
#[cfg(test)]
mod verification;
#[cfg(test)]
mod workbooks;
#[cfg(test)]
mod workers;
#[cfg(test)]
mod zone;
#[cfg(test)]
mod zone_contract;

/// Returns the path of a program of `examples/`, which is built together with these tests.
#[cfg(test)]
fn example(name: &str) -> std::path::PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("examples");
    let program = built.join(name);
    assert!(
        program.exists(),
        "{} does not exist: cargo build -p interzone-tests --examples",
        program.display()
    );
    program
}
