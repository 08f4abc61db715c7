//! jq without jq, by the crates of jaq.

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read};

/// Runs a jq program on JSON values, one a line, and prints as jq does.
pub fn jq(flags: &str, program: &str, input: &str) -> String {
    let values = input.lines().map(|line| read::parse_single(line.as_bytes()).expect("a line is JSON"));
    let inputs: Vec<Val> = if flags.contains('s') { vec![values.collect()] } else { values.collect() };
    let loader = Loader::new(jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()));
    let arena = Arena::default();
    let modules = loader.load(&arena, File { code: program, path: () }).unwrap_or_else(|_| panic!("jq cannot read {program}"));
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let filter = Compiler::default().with_funs(funs).compile(modules).unwrap_or_else(|_| panic!("jq cannot run {program}"));
    let mut output = String::new();
    for value in inputs {
        let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
        for result in filter.id.run((context, value)).map(unwrap_valr) {
            let text = result.expect("the recipe runs").to_string();
            match serde_json::from_str::<String>(&text) {
                Ok(string) if flags.contains('r') => output.push_str(&string),
                Ok(_) | Err(_) => output.push_str(&text),
            }
            output.push('\n');
        }
    }
    output
}
