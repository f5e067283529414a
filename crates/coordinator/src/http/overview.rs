//! The cluster at a glance, its members, and the probes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use steadfast_api::{
    CoordinatorInfo, CoordinatorRole, EvaluationCounts, MemberCounts, MemberInfo, Overview,
    Readiness, SelfSuspicion, SlotCounts, StandbyInfo,
};
use steadfast_client::Client;
use steadfast_model::{EvaluationStatus, MemberStatus};
use steadfast_store::LeaderInfo;

use super::respond::{Failure, json as answer, leading, not_leading};
use crate::convert;
use crate::shared::Shared;
use crate::view::View;

/// How long a standby may take to say how far it is, before the overview goes out without it.
const STANDBY_ANSWERS: Duration = Duration::from_millis(500);

pub(crate) async fn overview(State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let term = leading(&shared)?;
    let view = term.view.borrow().clone();
    let (members, slots) = count_members(&view);
    let mut jobs = BTreeMap::new();
    let mut evaluations = EvaluationCounts::default();
    let mut count = |status, evaluation: Option<EvaluationStatus>| {
        *jobs.entry(status).or_default() += 1;
        match evaluation {
            Some(EvaluationStatus::Clean) => evaluations.clean += 1,
            Some(EvaluationStatus::Dirty) => evaluations.dirty += 1,
            Some(EvaluationStatus::Unknown) => evaluations.unknown += 1,
            Some(EvaluationStatus::Disabled) | None => evaluations.disabled += 1,
        }
    };
    for job in view.jobs.values() {
        count(job.record.status, Some(job.evaluation(view.watermarks).status));
    }
    for summary in view.finished.values() {
        count(summary.status, summary.evaluation.as_ref().map(|evaluation| evaluation.status));
    }
    let coordinator = CoordinatorInfo {
        url: term.leader.url.clone(),
        pid: term.leader.pid,
        feature_level: term.leader.feature_level,
        epoch: view.epoch,
        since: view.since.into(),
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let self_suspicion = view.self_suspicion.map(|suspicion| SelfSuspicion {
        since: suspicion.since.into(),
        members: suspicion.members,
    });
    let overview = Overview {
        version,
        coordinator,
        coordinators: shared.coordinators.urls().to_vec(),
        standbys: standbys(&shared).await,
        members,
        slots,
        jobs,
        evaluations,
        self_suspicion,
        store_trouble: shared.store_health.trouble(),
    };
    Ok(answer(StatusCode::OK, &overview))
}

/// Asks the others how far they have followed. All at once, and not for long: one that hangs is told of as such.
async fn standbys(shared: &Shared) -> Vec<StandbyInfo> {
    let own = shared.coordinators.own_url();
    let (urls, rev) = (shared.coordinators.urls(), shared.coordinators.rev().0);
    let others = urls.iter().filter(|url| *url != own).map(async |url| {
        let asked =
            async { Client::new([url]).map_err(|error| error.to_string())?.readiness().await };
        let answer = tokio::time::timeout(STANDBY_ANSWERS, asked).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(format!("no answer within {} ms", STANDBY_ANSWERS.as_millis()))
        });
        let (url, error) = (url.clone(), answer.as_ref().err().cloned());
        let commits_behind = answer.ok().map(|ready| rev.saturating_sub(ready.revision));
        StandbyInfo { url, commits_behind, error }
    });
    futures_util::future::join_all(others).await
}

fn count_members(view: &View) -> (MemberCounts, SlotCounts) {
    let (mut members, mut slots) = (MemberCounts::default(), SlotCounts::default());
    for member in view.members.iter() {
        match member.status {
            MemberStatus::Lost => {
                members.lost += 1;
                continue;
            }
            MemberStatus::Alive | MemberStatus::Draining => members.alive += 1,
            MemberStatus::Suspected | MemberStatus::Disconnected => members.suspected += 1,
        }
        slots.total += u64::from(member.record.slots);
        slots.used += u64::from(member.used_slots);
    }
    (members, slots)
}

pub(crate) async fn members(State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let term = leading(&shared)?;
    let members = Arc::clone(&term.view.borrow().members);
    let listed: Vec<MemberInfo> = members.iter().map(convert::member_info).collect();
    Ok(answer(StatusCode::OK, &listed))
}

pub(crate) async fn live() -> Response {
    answer(StatusCode::OK, &json!({"status": "live"}))
}

pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let trouble = shared.store_health.trouble().map(|trouble| trouble.message);
    let (status, word) = match trouble {
        None => (StatusCode::OK, "ready"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "fail"),
    };
    let of = |role, leader: &LeaderInfo, epoch| Readiness {
        status: word.to_owned(),
        message: trouble.clone(),
        role,
        url: shared.coordinators.own_url().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: shared.coordinators.rev().0,
        leader: leader.url.clone(),
        since: leader.since.into(),
        epoch,
        coordinators: shared.coordinators.urls().to_vec(),
    };
    let ready = match (shared.term(), shared.coordinators.leader()) {
        (Some(term), _) => of(CoordinatorRole::Leader, &term.leader, Some(term.epoch)),
        (None, Some(leader)) => of(CoordinatorRole::Standby, &leader, None),
        (None, None) => return Err(not_leading(&shared)),
    };
    Ok(answer(status, &ready))
}
