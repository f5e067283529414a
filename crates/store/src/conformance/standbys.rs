//! The case of a standby, for engines that have any.

use std::sync::Arc;

use bytes::Bytes;

use super::cases::{end_job, guard, lead, load, put_job, put_ledger_with_history, put_token};
use super::{Case, Place, samples};
use crate::Op;

pub(super) const ALL: &[Case] =
    &[("a_standby_holds_what_loading_would_find", |place| Box::pin(follows(place)))];

async fn follows(place: Arc<dyn Place>) {
    let store = place.open().await;
    let Some(mut standby) = store.follow().await.expect("it can be followed") else { return };
    let mut term = lead(&store).await;
    let mut ops = vec![put_job(1), put_token(1, 1, 1)];
    ops.extend(put_ledger_with_history(1));
    let first = term.commit(ops).await;
    standby.reach(first.expect("it commits")).await.expect("nothing is missed");
    assert_eq!(standby.loaded().expect("it loads").snapshot, load(&store).await);
    let position = Bytes::from_static(b"position");
    assert_eq!(store.write_checkpoint(guard(&*term, 1, 1), position).await, Ok(()));
    let ops = vec![end_job(1, 5), put_job(2), Op::PutMemberEvent(samples::event(1))];
    let second = term.commit(ops).await.expect("it commits");
    standby.reach(second).await.expect("nothing is missed");
    let (held, found) =
        (standby.loaded().expect("it loads"), store.load().await.expect("it loads"));
    assert_eq!((held.snapshot, held.rev, held.leader), (found.snapshot, second, found.leader));
    assert_eq!(held.secret_key, found.secret_key);
    term.resign().await;
    while standby.leader() != Ok(None) {
        standby.changed().await.expect("nothing is missed");
    }
    let next = lead(&store).await;
    standby.reach(next.rev()).await.expect("nothing is missed");
    assert_eq!(standby.loaded().expect("it loads").rev, next.rev());
}
