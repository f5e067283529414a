//! The store is the only thing behind an async trait. A second one would be the first step to I/O
//! inside the decisions: whatever else waits is an effect, and its outcome comes back as an input.

use super::Finding;
use crate::source::{SourceFile, end_of_body, occurrences, tokens};

const STORE: &str = "crates/store/";

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let allowed: Vec<String> =
        files.iter().filter(|file| file.path.starts_with(STORE)).flat_map(traits).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.path.starts_with(STORE)) {
        for (at, name) in async_traits(file) {
            let message = format!("async trait `{name}`: only the store is behind one");
            findings.push(Finding::at(file, at, message));
        }
        for (at, name) in async_impls(file) {
            if !allowed.contains(&name) {
                let message = format!("`#[async_trait]` for `{name}`, which is not the store's");
                findings.push(Finding::at(file, at, message));
            }
        }
    }
    findings
}

fn traits(file: &SourceFile) -> Vec<String> {
    tokens(&file.code)
        .windows(2)
        .filter(|pair| pair[0].text == "trait")
        .map(|pair| pair[1].text.to_owned())
        .collect()
}

/// Traits with an async function, by the macro or by the language.
fn async_traits(file: &SourceFile) -> Vec<(usize, String)> {
    let tokens = tokens(&file.code);
    let mut found = Vec::new();
    for (index, pair) in tokens.windows(2).enumerate() {
        if pair[0].text != "trait" {
            continue;
        }
        let Some(end) = end_of_body(&tokens[index..]) else { continue };
        let body: Vec<_> =
            tokens[index..].iter().take_while(|token| token.at <= end).copied().collect();
        if !occurrences(&body, "async fn").is_empty() {
            found.push((pair[0].at, pair[1].text.to_owned()));
        }
    }
    found
}

/// The traits that `#[async_trait] impl … Trait for …` names.
fn async_impls(file: &SourceFile) -> Vec<(usize, String)> {
    let tokens = tokens(&file.code);
    let mut found = Vec::new();
    for at in occurrences(&tokens, "async_trait]") {
        let rest = &tokens[tokens.partition_point(|token| token.at < at)..];
        let head: Vec<_> = rest.iter().take_while(|token| token.text != "{").collect();
        if head.iter().any(|token| token.text == "impl")
            && let Some(place) = head.iter().rposition(|token| token.text == "for")
        {
            found.push((at, head[place - 1].text.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, code: &str) -> usize {
        let store = "#[async_trait]\npub trait Store { async fn load(&self); }";
        check(&[SourceFile::new("crates/store/src/lib.rs", store), SourceFile::new(path, code)])
            .len()
    }

    #[test]
    fn a_second_async_trait_is_refused() {
        let by_macro = "#[async_trait]\npub trait Launcher { async fn launch(&self); }";
        assert_eq!(count("crates/agent/src/a.rs", by_macro), 1);
        assert_eq!(count("crates/agent/src/a.rs", "trait A { async fn b(&self) {} }"), 1);
        assert_eq!(count("crates/store/src/a.rs", by_macro), 0);
        assert_eq!(count("crates/agent/src/a.rs", "trait A { fn b(); } async fn c() {}"), 0);
    }

    #[test]
    fn only_the_stores_traits_are_implemented_with_the_macro() {
        let known =
            "#[async_trait::async_trait]\nimpl<T> Store for Slow<T> { async fn load(&self) {} }";
        assert_eq!(count("crates/coordinator/src/a.rs", known), 0);
        let foreign = "#[async_trait]\nimpl Handler for Page { async fn call(&self) {} }";
        assert_eq!(count("crates/coordinator/src/a.rs", foreign), 1);
    }
}
