//! Bodies that arrive slowly, in part, too large or compressed.

use std::time::Duration;

use ccm_sim::hetzner::{Fault, Trouble};

use super::faults::get;
use super::{TOKEN, cloud, reqwest_client};

#[tokio::test]
async fn a_body_that_drips_arrives_whole_and_in_pieces() {
    let cloud = cloud().await;
    let expected = get(&cloud, "/locations").await.1;
    let pause = Duration::from_millis(1);
    cloud.inject(Fault::new(Trouble::Drip { piece: 100, pause }));
    let url = format!("{}/locations", cloud.endpoint());
    let mut answer = reqwest_client()
        .get(url)
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    let (mut pieces, mut whole) = (0, Vec::new());
    while let Some(piece) = answer.chunk().await.unwrap() {
        pieces += 1;
        whole.extend_from_slice(&piece);
    }
    assert_eq!(whole, expected);
    assert!(pieces > 1, "{pieces} pieces");
}

#[tokio::test]
async fn half_a_body_is_sent_as_if_whole_or_cut_off() {
    let cloud = cloud().await;
    let (_, whole) = get(&cloud, "/locations").await;
    cloud.inject(Fault::new(Trouble::Truncated).times(1));
    let (head, body) = get(&cloud, "/locations").await;
    assert!(
        head.contains(&format!("content-length: {}", whole.len() / 2)),
        "{head}"
    );
    assert_eq!(body, whole[..whole.len() / 2]);
    cloud.inject(Fault::new(Trouble::Cut).times(1));
    let (head, body) = get(&cloud, "/locations").await;
    assert!(
        head.contains(&format!("content-length: {}", whole.len())),
        "{head}"
    );
    assert_eq!(body, whole[..whole.len() / 2]);
}

#[tokio::test]
async fn a_body_grows_as_large_as_wanted_and_stays_json() {
    let cloud = cloud().await;
    let whole = get(&cloud, "/locations").await.1;
    for declared in [true, false] {
        let blanks = 3_000_000;
        cloud.inject(Fault::new(Trouble::Oversize { blanks, declared }).times(1));
        let url = format!("{}/locations", cloud.endpoint());
        let answer = reqwest_client()
            .get(url)
            .bearer_auth(TOKEN)
            .send()
            .await
            .unwrap();
        let size = blanks + whole.len() as u64;
        assert_eq!(answer.content_length(), declared.then_some(size));
        let body = answer.bytes().await.unwrap();
        assert_eq!(body.len() as u64, size);
        assert_eq!(body.trim_ascii_start(), whole);
    }
}

#[tokio::test]
async fn a_compressed_body_is_small_on_the_wire_and_large_behind_it() {
    let cloud = cloud().await;
    let whole = get(&cloud, "/locations").await.1;
    cloud.inject(Fault::new(Trouble::Gzip { blanks: 10_000_000 }));
    let (head, body) = get(&cloud, "/locations").await;
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(body.len() < 100_000, "{} bytes", body.len());
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&body[..]), &mut unpacked)
        .unwrap();
    assert_eq!(unpacked.len(), 10_000_000 + whole.len());
    assert_eq!(unpacked.trim_ascii_start(), whole);
}
