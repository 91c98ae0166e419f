#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "temporary")]
use std::time::{Duration, Instant};
use std::sync::Arc;
use ccm_core::cloud::{CloudNode, CloudProvider as _};
use ccm_core::permit::Permit;
use ccm_host::grant::{Credential, Secret};
use ccm_host::*;
#[test]
fn survey() {
    let wasm = std::fs::read(std::env::var("GUEST").unwrap()).unwrap();
    let compiler = Compiler { program: std::env::var("CHILD").unwrap().into(), arguments: vec!["__compile".into()] };
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
        let host = Host::new(HostOptions { compiler, cache_dir: None }).unwrap();
        let inspection = inspect("m", &wasm).unwrap();
        println!("imports {:?}", inspection.imports);
        let list = std::env::var("LIST").unwrap();
        for word in list.split_whitespace() {
            let mut grants = inspection.manifest.as_grants();
            for t in &mut grants.targets { t.endpoint = std::env::var("EP").unwrap_or("http://127.0.0.1:9/v1".into()).parse().unwrap(); t.credential = Credential::Bearer(Secret::new("tok-123456".into())); }
            let config = GuestConfig { cluster_name: "k".into(), cluster_cidrs: vec![], values: if let Ok(h) = std::env::var("EPHOST") { [("host".to_string(), h), ("mode".to_string(), word.to_string())].into() } else { [("behaviour".to_string(), word.to_string())].into() } };
            let began = Instant::now();
            let provider = match host.load(Module { source: "m".into(), wasm: wasm.clone() }, grants, config).await {
                Ok(p) => p,
                Err(e) => { let mut t = e.to_string(); let mut c = std::error::Error::source(&e); while let Some(x) = c { t += ": "; t += &x.to_string(); c = x.source(); } println!("== {word}: load {:?} {t}", began.elapsed()); continue }
            };
            println!("warnings {:?}", provider.warnings());
            let node = CloudNode { name: "n1".into(), uid: "u".into(), provider_id: Some("misbehaving://n1".into()), labels: Default::default(), annotations: Default::default(), addresses: vec![], pod_cidrs: vec![], system_uuid: None, created: 0 };
            for _ in 0..2 {
            let permit = Arc::new(Permit::read_only(egress::now().after(Duration::from_millis(std::env::var("MS").ok().and_then(|v| v.parse().ok()).unwrap_or(3000)))));
            let began = Instant::now();
            let out = provider.find(&[node.clone(), node.clone()], permit).await;
            let text = format!("{out:?}");
            println!("== {word}: {:?} {} bytes: {}", began.elapsed(), text.len(), text.chars().take(700).collect::<String>());
            }
        }
        let rss = std::fs::read_to_string("/proc/self/status").unwrap();
        println!("{}", rss.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS")).collect::<Vec<_>>().join(" "));
    });
}
