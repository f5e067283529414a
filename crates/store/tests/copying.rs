//! Copying a store, between engines that need nothing but this crate.

use steadfast_store::conformance::copying::{Pair, suite};
use steadfast_store::copy::Location;

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_is_copied_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut pairs = 0;
    suite(|| {
        pairs += 1;
        let place = |name| Location::Embedded(folder.path().join(format!("{pairs}/{name}")));
        Pair { from: place("from"), to: place("to") }
    })
    .await;
}
