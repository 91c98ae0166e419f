//! Lists that are older than the manager's own writes, as after an etcd was restored from a backup.

use super::*;
use alone::{Alone, claims};

#[tokio::test(start_paused = true)]
async fn an_older_list_is_believed_after_ten_seconds_although_nothing_else_happens() {
    let world = World::new();
    let restored = world.serve("web").await;
    let mut alone = Alone::new(&world, claims(&["sim"], "sim"));
    alone.list(&restored);
    assert_eq!(alone.run().await, 1);
    assert_eq!(world.cloud.asked(), ["ensure default/web"]);

    alone.list(&restored);
    let controller = &mut alone.controller;
    controller.start_due();
    assert!(controller.reconciliations.is_empty());
    let believed = controller.clock.now().after(Duration::from_secs(10));
    let next = controller.start_due();
    assert!(next.is_some_and(|next| next <= believed), "{next:?}");
    a_while().await;
    controller.start_due();
    assert_eq!(controller.reconciliations.len(), 1);
}
