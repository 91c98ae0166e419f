//! The status page in a real browser: Chromium renders it with scripts switched off by the page's own policy, light and
//! dark, narrow and wide. `CCM_SCREENSHOTS` names a folder that keeps the pictures for people.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::CCM;

/// A demo that keeps its page open.
pub(super) struct Demo {
    process: Child,
    /// The URL of its page.
    pub(super) page: String,
}

impl Demo {
    /// Starts the demo, and waits until it has played to its end.
    pub(super) fn start() -> Demo {
        Demo::start_seeing(|_, _| ())
    }

    /// The same; `see` gets each line as it is printed, and the URL of the page.
    fn start_seeing(mut see: impl FnMut(&str, &str)) -> Demo {
        let mut process = Command::new(CCM)
            .args(["demo", "--serve"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut demo = Demo {
            process,
            page: String::new(),
        };
        for line in lines.map(Result::unwrap) {
            if let Some((_, url)) = line.split_once("as a page while it runs: ") {
                demo.page = url.to_owned();
            }
            see(&line, &demo.page);
            if line.contains("stays open until Ctrl-C: ") {
                return demo;
            }
        }
        panic!("the demo did not come to its end");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Chromium's standard output and standard error for a page.
fn chromium(arguments: &[&str], page: &str) -> (String, String) {
    let profile = TempDir::new().unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .args(["--enable-logging=stderr", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(page)
        .output()
        .expect("chromium is not in PATH (on Debian: apt-get install chromium)");
    let [reported, complained] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{complained}");
    assert!(
        !complained.contains("Content Security Policy"),
        "{complained}"
    );
    (reported, complained)
}

/// The colour of a corner, which is the page's background. The first pixel of a PNG is the same under every filter.
fn corner(file: &Path) -> [u8; 3] {
    use std::io::Read as _;
    let png = std::fs::read(file).unwrap();
    let start = png.windows(4).position(|four| four == b"IDAT").unwrap() + 4;
    let mut pixels = flate2::read::ZlibDecoder::new(&png[start..]);
    let mut first = [0; 4];
    pixels.read_exact(&mut first).unwrap();
    [first[1], first[2], first[3]]
}

fn pictures(scratch: &TempDir) -> PathBuf {
    match std::env::var_os("CCM_SCREENSHOTS") {
        Some(folder) => {
            std::fs::create_dir_all(&folder).unwrap();
            folder.into()
        }
        None => scratch.path().to_owned(),
    }
}

#[test]
fn the_status_page_is_readable_in_a_browser_light_and_dark_narrow_and_wide() {
    let (demo, scratch) = (Demo::start(), TempDir::new().unwrap());
    let folder = pictures(&scratch);
    for (scheme, name, ground) in [(1, "light", [0xff; 3]), (0, "dark", [0x0d, 0x11, 0x17])] {
        for width in [360, 1400] {
            let file = folder.join(format!("status-{name}-{width}.png"));
            let size = format!("--window-size={width},2000");
            let shot = format!("--screenshot={}", file.display());
            let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
            chromium(&[&scheme, &size, &shot], &demo.page);
            // The browser has accepted the stylesheet, which follows the reader's colour scheme.
            assert_eq!(corner(&file), ground, "{}", file.display());
        }
    }
}

/// What `ccm status` prints of a page.
fn in_a_terminal(page: &str) -> String {
    let output = Command::new(CCM)
        .args(["status", "--server", page])
        .output()
        .unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complained}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_status_page_says_the_same_without_scripts_and_in_a_terminal() {
    // Time passes fast in the demo: what a brake has spent is shown for ten seconds.
    let mut after_a_deletion = String::new();
    let demo = Demo::start_seeing(|line, page| {
        if line.contains("delete node/worker-2 → done") {
            after_a_deletion = in_a_terminal(page);
        }
    });
    let spent = "1 of 3 in 10 min";
    assert!(
        after_a_deletion.contains(spent),
        "{spent} is missing:\n{after_a_deletion}"
    );
    let terminal = in_a_terminal(&demo.page);
    let (dom, _) = chromium(&["--dump-dom"], &format!("{}?refresh=off", demo.page));
    assert!(
        !dom.contains("<script") && !dom.contains("http-equiv"),
        "{dom}"
    );
    // The structure that screen readers use.
    for part in [
        "<html lang=\"en\">",
        "<a class=\"skip\" href=\"#main\">",
        "<nav aria-label=\"Sections\">",
        "<main id=\"main\">",
        "<caption>",
        "<th scope=\"col\">",
        "<th scope=\"row\">",
        "<time datetime=",
    ] {
        assert!(dom.contains(part), "{part} is missing:\n{dom}");
    }
    for part in [
        "hcloud",
        "0.2.1",
        "POST /load_balancers/{id}/actions/add_target",
        "node/laptop",
        "the provider hcloud knows no instance with the name laptop",
        "node-deletion",
        "delete node/worker-2",
    ] {
        assert!(terminal.contains(part), "{part} is missing:\n{terminal}");
        assert!(dom.contains(part), "{part} is missing:\n{dom}");
    }
    assert!(!dom.contains("a-token-that-the-guest-never-sees"));
}
