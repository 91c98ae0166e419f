//! The tutorial for authors shows a provider as it is: every block of code is in the file that is named above it.

use crate::lists::root;

const PAGE: &str = "deploy/docs/tutorial-provider.md";
/// The languages of blocks that are no part of the provider.
const OTHER: &[&str] = &["sh", "yaml"];

/// A text without its indentation.
fn plain(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_tutorials_code_is_the_providers() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let mut file = None;
    let mut compared = 0;
    let mut parts = page.split("```");
    while let Some(prose) = parts.next() {
        let named = prose
            .lines()
            .filter_map(|line| line.strip_prefix("`guests/proxmox/")?.strip_suffix("`:"));
        file = named.fold(file, |_, file| Some(file));
        let Some(block) = parts.next() else { break };
        let (language, code) = block.split_once('\n').unwrap();
        if OTHER.contains(&language) {
            continue;
        }
        let file = file
            .take()
            .unwrap_or_else(|| panic!("no file is named above:\n{code}"));
        let source = root().join("guests/proxmox").join(file);
        let source = plain(&std::fs::read_to_string(source).unwrap());
        for item in plain(code.trim_end()).split("\n\n") {
            assert!(
                source.contains(item),
                "{PAGE} shows what is not in {file}:\n{item}"
            );
        }
        compared += 1;
    }
    assert!(compared >= 10, "{compared} blocks were compared");
}

/// `pveum` refuses a role with a privilege that its version of Proxmox VE does not have.
#[test]
fn the_tutorials_role_exists_in_every_version_of_proxmox() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let role = page.lines().find(|line| line.starts_with("pveum role add"));
    let role = role.unwrap();
    for (privilege, version) in [("VM.GuestAgent", "9"), ("VM.Monitor", "8")] {
        assert!(!role.contains(privilege), "{role}: in {version} only");
        assert!(page.contains(privilege), "{privilege} of {version}");
    }
}
